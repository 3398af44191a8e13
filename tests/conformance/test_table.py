"""No row of the table is without a case."""

from __future__ import annotations

from tests.conformance.cases import TOGETHER, all_cases, covers
from tests.conformance.honoured import UNKNOWN
from tests.conformance.samples import SAMPLES
from tests.conformance.table import cells


def test_every_cell_has_a_case() -> None:
    bare = [cell for cell in cells() if not any(covers(case, cell) for case in all_cases())]
    assert bare == []


def test_every_case_is_of_a_row() -> None:
    known = {(cell.path, cell.param) for cell in cells()}
    strays = {case.parameter for case in all_cases() if (case.path, case.parameter) not in known}
    assert strays == {UNKNOWN, TOGETHER}


def test_every_row_has_a_sample() -> None:
    assert {cell.parameter for cell in cells()} <= SAMPLES.keys()


def test_cases_are_told_apart_by_their_names() -> None:
    names = [case.name for case in all_cases()]
    assert sorted(set(names)) == sorted(names)
