"""API keys and tenants: kept in Redis or in a file, and known to every gateway."""

from dllm_stack.keys.directory import Directory, Refusal, Revocation
from dllm_stack.keys.file import KeyFile, KeyFileError
from dllm_stack.keys.records import Created, StoreError
from dllm_stack.keys.ring import KeyRing
from dllm_stack.keys.store import KeyStore

__all__ = [
    "Created",
    "Directory",
    "KeyFile",
    "KeyFileError",
    "KeyRing",
    "KeyStore",
    "Refusal",
    "Revocation",
    "StoreError",
]
