"""The queue of a pool: admission, leases, replies. Every change is one atomic script."""

from dllm_stack.queue.pool import START, Depth, Dispatched, PoolQueue, Reclaimed
from dllm_stack.queue.registry import Registry

__all__ = ["START", "Depth", "Dispatched", "PoolQueue", "Reclaimed", "Registry"]
