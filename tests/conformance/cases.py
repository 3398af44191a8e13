"""Every case: those that follow from the table, and those that say what an honoured parameter does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from tests.conformance.autoregressive import CASES as AUTOREGRESSIVE
from tests.conformance.case import SAME, Case, Refused
from tests.conformance.choices import CASES as CHOICES
from tests.conformance.honoured import HONOURED
from tests.conformance.samples import sample
from tests.conformance.table import CHAT, COMPLETIONS, GENERATE, SAMPLING, Cell, cells

TOGETHER = "several"
UNSUPPORTED = "unsupported_parameter"


def follows(cell: Cell) -> Iterator[Case]:
    """What the table says of a parameter that is not honoured."""
    example = sample(cell.column, cell.parameter)
    # The engine's own parameters of a model that has none are refused by what is inside.
    inside = (
        ".dllm" if (cell.parameter, cell.kind, cell.column) == ("custom_params", "only", SAMPLING) else ""
    )
    refused = Refused(UNSUPPORTED, cell.param + inside)

    def case(value: Any, expect: Any, *, streams: bool = True) -> Case:
        return Case(cell.path, cell.param, {cell.param: value}, expect, streams, model=cell.model)

    match cell.kind:
        case "only":
            for value in cell.values:
                yield case(value, SAME)
            if example is not None and example not in cell.values:
                yield case(example, refused)
        case "ignored":
            yield case(example, SAME)
        case "refused":
            yield case(example, refused, streams=False)
            yield case(None, refused, streams=False)


def _nothing(column: str) -> Case:
    """Null is taken for whatever is taken without effect."""
    params = [cell.param for cell in cells() if cell.column == column and cell.kind in ("only", "ignored")]
    path = GENERATE if column == SAMPLING else column
    return Case(path, TOGETHER, dict.fromkeys(params), SAME)


@cache
def all_cases() -> tuple[Case, ...]:
    derived = [case for cell in cells() if cell.kind != "honoured" for case in follows(cell)]
    together = [_nothing(column) for column in (CHAT, COMPLETIONS, GENERATE, SAMPLING)]
    return (*HONOURED, *CHOICES, *AUTOREGRESSIVE, *derived, *together)


def covers(case: Case, cell: Cell) -> bool:
    return (case.path, case.parameter, case.model) == (cell.path, cell.param, cell.model)
