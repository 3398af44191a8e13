"""What one check has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "missing", "unknown", "absent"]
"""`absent`: it is not there, and nothing that would be installed needs it."""


@dataclass(frozen=True)
class Finding:
    """
    Attributes:
        found: what the cluster has.
        advice: what to do about it; "" where there is nothing to do.
    """

    check: str
    state: State
    found: str
    advice: str = ""
