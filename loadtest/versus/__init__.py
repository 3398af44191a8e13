"""This stack and other projects' gateways, each in front of the same simulator."""
