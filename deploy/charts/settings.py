"""The schema of `config`: the services' settings, less those that the chart sets itself."""

from __future__ import annotations

from typing import Any

from deploy.charts import pydantic_schema
from dllm_stack.settings import Settings

# Set by the chart, in environment variables, which win over the file.
OWNED = (
    "log_format",
    "up",
    "redis.url",
    "access",
    "gateway.host",
    "gateway.port",
    "admin",
    "router.host",
    "router.port",
    "router.worker_pods",
    "router.worker_pods_namespace",
    "worker.host",
    "worker.port",
    "worker.model",
    "worker.profile",
    "worker.checkpoint",
    "worker.engine_url",
    "worker.pod",
)


def schema() -> dict[str, Any]:
    whole = pydantic_schema.schema(Settings)
    for owned in OWNED:
        *groups, name = owned.split(".")
        properties = whole["properties"]
        for group in groups:
            properties = properties[group]["properties"]
        del properties[name]
    for group in whole["properties"].values():
        group.pop("default", None)  # a group's says nothing that its settings' do not
    return whole
