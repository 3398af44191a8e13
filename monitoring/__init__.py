"""Rules and dashboards of configs/ as code: what they ask, and whether that can be answered."""
