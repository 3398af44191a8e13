"""Loads and measurements of a running stack."""
