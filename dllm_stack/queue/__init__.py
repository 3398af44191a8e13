"""The queue of one pool: admission, leases, replies. Every change is one atomic script."""

from dllm_stack.queue.pool import Admission, PoolQueue, Reclaimed
from dllm_stack.queue.registry import Registry

__all__ = ["Admission", "PoolQueue", "Reclaimed", "Registry"]
