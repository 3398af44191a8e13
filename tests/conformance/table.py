"""The table of parameters in docs/api.md, which tests/docs holds against the code."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tests.docs.pages import rows_of

CHAT, COMPLETIONS, GENERATE = "/v1/chat/completions", "/v1/completions", "/generate"
SAMPLING = "sampling_params of it"


@dataclass(frozen=True)
class Cell:
    """What the table says of one parameter.

    Attributes:
        column: CHAT, COMPLETIONS, GENERATE or SAMPLING.
        kind: honoured | only | ignored | refused.
        values: besides null, those that are taken of kind `only`.
    """

    parameter: str
    column: str
    kind: str
    values: tuple[Any, ...] = ()

    @property
    def path(self) -> str:
        return GENERATE if self.column == SAMPLING else self.column

    @property
    def param(self) -> str:
        """As an error names it."""
        return f"sampling_params.{self.parameter}" if self.column == SAMPLING else self.parameter


def cells() -> list[Cell]:
    columns = [CHAT, COMPLETIONS, GENERATE, SAMPLING]
    rows = rows_of("api.md", "parameter", *(f"`{column}`" for column in columns))
    return [
        _cell(row[0].strip("`"), column, text)
        for row in rows
        for column, text in zip(columns, row[1:], strict=True)
    ]


def _cell(parameter: str, column: str, text: str) -> Cell:
    if not text.startswith("only "):
        return Cell(parameter, column, text)
    values = [json.loads(value) for value in re.findall("`(.*?)`", text)]
    return Cell(parameter, column, "only", tuple(value for value in values if value is not None))
