"""The table of parameters in docs/api.md, which tests/docs holds against the code."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from tests.docs.pages import page

DIFFUSION, AUTOREGRESSIVE = "diffusion", "autoregressive"  # kinds of models
CHAT, COMPLETIONS, GENERATE = "/v1/chat/completions", "/v1/completions", "/generate"
SAMPLING = "sampling_params of it"


@dataclass(frozen=True)
class Cell:
    """What the table says of one parameter.

    Attributes:
        column: CHAT, COMPLETIONS, GENERATE or SAMPLING.
        model: the kind of model it is said of.
        kind: honoured | only | ignored | refused.
        values: besides null, those that are taken of kind `only`.
    """

    parameter: str
    column: str
    model: str
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
    """What is said of an autoregressive model only where it differs from a diffusion model."""
    header, *rows = _table()
    columns = [_column(title) for title in header[1:]]
    found: list[Cell] = []
    for row in rows:
        of_diffusion = {
            column: text for (column, model), text in zip(columns, row[1:], strict=True) if model == DIFFUSION
        }
        for (column, model), text in zip(columns, row[1:], strict=True):
            if model == DIFFUSION or text != of_diffusion[column]:
                found.append(_cell(row[0].strip("`"), column, model, text))
    return found


def _table() -> list[list[str]]:
    """The first row is the header."""
    found: list[list[str]] = []
    for line in page("api.md").splitlines():
        row = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else []
        if (row[:1] == ["parameter"] and CHAT in line) or (found and row):
            found.append(row)
        elif found and not line.startswith("|"):
            break
    return found


def _column(title: str) -> tuple[str, str]:
    """And the kind of model that it is about."""
    (column,) = re.findall("`([^`]*)`", title)
    return column, AUTOREGRESSIVE if AUTOREGRESSIVE in title else DIFFUSION


def _cell(parameter: str, column: str, model: str, text: str) -> Cell:
    if not text.startswith("only "):
        return Cell(parameter, column, model, text)
    values = [json.loads(value) for value in re.findall("`(.*?)`", text)]
    return Cell(parameter, column, model, "only", tuple(value for value in values if value is not None))
