"""The queue of a pool: admission, leases, replies. Every change is one atomic script."""

from dllm_stack.queue.pool import START, Admission, Depth, Dispatched, PoolQueue, Reclaimed
from dllm_stack.queue.registry import Registry

__all__ = ["START", "Admission", "Depth", "Dispatched", "PoolQueue", "Reclaimed", "Registry"]
