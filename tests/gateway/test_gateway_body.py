"""What a body costs to read."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from gateway.http.body import parse_json


@pytest.mark.parametrize("end", ["", "]"])
def test_garbage_is_not_collected_while_a_document_is_made(end: str) -> None:
    """It would take longer than all the rest."""
    collected: list[str] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        collected.append(phase)

    text = "[" + ",".join(["[]"] * 100_000) + "]" + end
    gc.callbacks.append(note)
    try:
        assert len(parse_json(text)) == 100_000
    except ValueError:
        assert end
    finally:
        gc.callbacks.remove(note)
    assert collected == []
    assert gc.isenabled()
