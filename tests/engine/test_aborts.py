"""What a request to be aborted looks like to a SGLang that miscounts it, which can only be a fake here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from worker.dllm.aborts import account_for_all

PROMPT, ANSWER, BLOCK = [1, 2, 3], [4, 5, 6, 7, 8], [9, 9, 9, 9]


class FakeTable:
    """SGLang's table of pages, one row."""

    def __init__(self, rows: int = 1) -> None:
        self.free = rows
        self.written: list[int] = []

    def alloc(self, requests: list[Any]) -> list[int] | None:
        if not self.free:
            return None
        self.free -= 1
        requests[0].req_pool_idx = 7
        return [7]

    def write(self, place: tuple[int, slice], pages: torch.Tensor) -> None:
        assert place == (7, slice(0, len(pages)))
        self.written = pages.tolist()


class FakeRequest:
    """One of SGLang's, in the middle of a block."""

    def __init__(self, rid: str, row: int | None, holds: bool = True) -> None:
        self.rid = rid
        self.req_pool_idx = row
        self.kv = object() if holds else None
        self.origin_input_ids = PROMPT
        self.output_ids = ANSWER
        self.prefix_indices = torch.tensor([64, 65])

    def get_fill_ids(self) -> list[int]:
        return PROMPT + ANSWER + BLOCK


def abort(request: FakeRequest, table: FakeTable, rid: str = "a", everything: bool = False) -> None:
    manager = SimpleNamespace(waiting_queue=[request], staging_queue=[request])
    scheduler = SimpleNamespace(dllm_config=object(), dllm_manager=manager, req_to_token_pool=table)
    account_for_all(scheduler, SimpleNamespace(rid=rid, abort_all=everything))


@pytest.mark.parametrize(("rid", "everything"), [("a", False), ("", True)])
def test_the_block_under_way_is_counted(rid: str, everything: bool) -> None:
    request = FakeRequest("a", row=1)
    abort(request, FakeTable(), rid, everything)
    assert request.output_ids == ANSWER + BLOCK


def test_a_request_without_a_row_gets_one_with_its_pages() -> None:
    request, table = FakeRequest("a", row=None), FakeTable()
    abort(request, table)
    assert (request.req_pool_idx, table.written, table.free) == (7, [64, 65], 0)


@pytest.mark.parametrize(
    ("request_", "table"),
    [
        (FakeRequest("b", row=None), FakeTable()),
        (FakeRequest("a", row=None, holds=False), FakeTable()),
        (FakeRequest("a", row=None), FakeTable(rows=0)),
    ],
    ids=["another request", "nothing held", "no row free"],
)
def test_the_others_stay_as_they_are(request_: FakeRequest, table: FakeTable) -> None:
    abort(request_, table)
    assert (request_.req_pool_idx, request_.output_ids, table.written) == (None, ANSWER, [])
