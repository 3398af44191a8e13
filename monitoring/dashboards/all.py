"""Every dashboard there is, and the files that hold them."""

from __future__ import annotations

import json

from dllm_stack.settings import CONFIGS
from monitoring.dashboards.capacity import CAPACITY
from monitoring.dashboards.engine import ENGINE
from monitoring.dashboards.model import Dashboard
from monitoring.dashboards.overview import OVERVIEW
from monitoring.dashboards.queue import QUEUE
from monitoring.dashboards.redis import REDIS

FOLDER = CONFIGS / "grafana" / "dashboards"
DASHBOARDS = (OVERVIEW, QUEUE, ENGINE, CAPACITY, REDIS)


def files() -> dict[str, str]:
    """Name -> content."""
    return {f"{dashboard.uid}.json": text(dashboard) for dashboard in DASHBOARDS}


def text(dashboard: Dashboard) -> str:
    return json.dumps(dashboard.json(), indent=1) + "\n"
