"""Grafana's dashboards: `python -m monitoring.dashboards` writes configs/grafana/dashboards."""
