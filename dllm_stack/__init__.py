"""What the gateway, the router and the worker share."""
