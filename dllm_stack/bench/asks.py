"""What is to be sent: requests in order, each with its time if it has one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Prompt:
    """
    Attributes:
        content: a text, or token ids.
        tokens: of the prompt, by the tokenizer here; a server may add a chat template.
        output_tokens: to be asked for.
    """

    content: str | list[int]
    tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Tenant:
    """Who sends a part of the load.

    Attributes:
        weight: its share of the requests, relative to the others'.
        model: in place of the run's; a mode is part of the name, "llada2.1-mini:speed".
        headers: its key or its name.
        extra: fields of the body.
    """

    name: str = ""
    weight: float = 1.0
    model: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ask:
    """
    Attributes:
        due_s: when to send it, in seconds since the start of the run; None: as soon as there is room.
    """

    number: int
    prompt: Prompt
    tenant: Tenant
    due_s: float | None = None
