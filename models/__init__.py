"""Models that this repository makes itself."""
