"""What /metrics of every service answers."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, disable_created_metrics, generate_latest

__all__ = ["CONTENT_TYPE_LATEST", "expose"]

# A `_created` beside every counter and histogram would be a third of all series, and is asked for by none.
disable_created_metrics()  # type: ignore[no-untyped-call]


def expose(registry: CollectorRegistry) -> bytes:
    """A registry's metrics, in the format of CONTENT_TYPE_LATEST."""
    return generate_latest(registry)
