"""What a tenant may send: requests and tokens a minute, requests open at once; exact over all gateways."""

from dllm_stack.limits.headers import EXPOSED_HEADERS
from dllm_stack.limits.limiter import Limiter, Reservation
from dllm_stack.limits.verdicts import LimitError

__all__ = ["EXPOSED_HEADERS", "LimitError", "Limiter", "Reservation"]
