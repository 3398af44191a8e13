"""What this model honours of a request: its card says so, as its worker has found out from the engine."""

from __future__ import annotations

import json

from dllm_stack.outcomes import SOON_S, ErrorCode, Problem, RequestError
from gateway.catalogue import Found
from gateway.fields.validation import Rules, Schema, unsupported

ENGINE_DOES_NOT = "its engine does not honour it"


def check(asked: Schema, rules: Rules[Schema], found: Found, path: str = "") -> None:
    """
    Args:
        path: before the fields' names in the request; empty or with a dot at its end.

    Raises:
        RequestError: naming the first field that the model cannot honour; or it is not loaded yet.
    """
    for name, conditional in rules.conditional.items():
        value = getattr(asked, name)
        if value is None or value in conditional.values:
            continue
        if conditional.capability not in capabilities(found):
            allowed = " or ".join(json.dumps(each) for each in conditional.values)
            only = f"other than {allowed} " if allowed else ""
            autoregressive = found.card is not None and found.card.is_autoregressive
            why = ENGINE_DOES_NOT if autoregressive else conditional.why
            raise unsupported(f"{path}{name}", f"{only}is not supported by {found.pool}: {why}")


def capabilities(found: Found) -> list[str]:
    """
    Raises:
        RequestError: no worker has told them yet.
    """
    if found.card is None or found.card.capabilities is None:
        raise not_loaded(found)
    return found.card.capabilities


def not_loaded(found: Found) -> RequestError:
    message = f"No worker has loaded {found.pool} yet, so what it can do is not known."
    return RequestError(Problem(ErrorCode.NO_WORKER, message, retry_after_s=SOON_S))
