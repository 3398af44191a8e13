"""docs/metrics.md lists what the services register, and its queries can be right."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from gateway.metrics import Metrics
from router.metrics import RouterMetrics
from tests.docs import promql
from tests.docs.pages import assert_holds, blocks, code, table
from worker.metrics import WorkerMetrics


def registries() -> dict[str, CollectorRegistry]:
    router, worker = CollectorRegistry(), CollectorRegistry()
    RouterMetrics(router)
    WorkerMetrics(worker, "pool")
    return {"Gateway": Metrics().registry, "Router": router, "Worker": worker}


def metrics_of(registry: CollectorRegistry) -> dict[str, tuple[promql.Metric, str]]:
    """Name as it is exposed -> type and labels, and help."""
    found = {}
    for collector in registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            (family,) = collector.collect()
            name = f"{family.name}_total" if family.type == "counter" else family.name
            metric = promql.Metric(family.type, tuple(collector._labelnames))
            found[name] = (metric, family.documentation)
    return found


@pytest.mark.parametrize("service", registries())
def test_every_metric_is_listed(service: str) -> None:
    rows = [
        [code(name), metric.type, ", ".join(code(label) for label in metric.labels), about]
        for name, (metric, about) in metrics_of(registries()[service]).items()
    ]
    assert_holds("metrics.md", f"## {service}\n\n{table(['metric', 'type', 'labels', 'what'], *rows)}\n")


def test_every_metric_is_in_a_query_that_can_be_right() -> None:
    metrics = {
        name: metric
        for registry in registries().values()
        for name, (metric, _) in metrics_of(registry).items()
    }
    lines = [line for block in blocks("metrics.md", "promql") for line in block.splitlines() if line]
    queries = [line for line in lines if not line.startswith("#")]
    assert len(queries) == len(lines) / 2, "each query has one line, and one above it that says what it tells"
    used = set().union(*(promql.check(query, metrics) for query in queries))
    named = {name for name in metrics if used & promql.series({name: metrics[name]}).keys()}
    assert set(metrics) - named == set()
