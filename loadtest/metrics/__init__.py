"""Whether the metrics are true, and what they cost."""
