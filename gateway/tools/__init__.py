"""Tools: what a request may offer, and the calls that a model writes in its text."""
