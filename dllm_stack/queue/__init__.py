"""The queue of a pool: admission, leases, replies. Every change is one atomic script."""

from dllm_stack.queue.figures import (
    Committal,
    DeadLetter,
    Depth,
    Dispatched,
    JobStatus,
    Position,
    Reclaimed,
    TenantStatus,
    TierDepth,
    WorkerStatus,
)
from dllm_stack.queue.pool import START, PoolQueue
from dllm_stack.queue.registry import Registry

__all__ = [
    "START",
    "Committal",
    "DeadLetter",
    "Depth",
    "Dispatched",
    "JobStatus",
    "PoolQueue",
    "Position",
    "Reclaimed",
    "Registry",
    "TenantStatus",
    "TierDepth",
    "WorkerStatus",
]
