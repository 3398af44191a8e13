"""Two decoders as the ranks of one engine: each step is compared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from dllm_stack.decoding import Decision, EngineOptions
from tests.engine.decoding.fake_scheduler import FakeRequest, FakeScheduler
from tests.engine.decoding.requests import MANY, prompt
from tests.engine.reference import Reference
from worker.dllm.decoder import Decoder
from worker.dllm.ranks import RankCheck, RanksDisagree
from worker.dllm.settings import DecoderSettings

TOKENS = 40


class Ranks:
    """What two ranks give to each other, each in a thread of its own."""

    def __init__(self) -> None:
        self.exchanges = 0
        self._given: list[Any] = [None, None]
        self._barrier = Barrier(2, timeout=300)

    def exchange(self, rank: int) -> Callable[[Any], list[Any]]:
        def give(own: Any) -> list[Any]:
            self._given[rank] = own
            self._barrier.wait()
            both = list(self._given)
            self._barrier.wait()
            if rank == 0:
                self.exchanges += 1
            return both

        return give


async def decode(model: Reference, requests: list[list[FakeRequest]]) -> tuple[Ranks, list[str]]:
    """Each rank its own requests; what ended each, if it was no success."""
    ranks = Ranks()

    def run(rank: int) -> str:
        settings = DecoderSettings(default=Decision(algorithm="LowConfidence"), steps_per_round=4)
        decoder = Decoder(settings, model.config["block_size"], model.config["mask_token_id"])
        decoder.compare = RankCheck(ranks.exchange(rank))
        try:
            FakeScheduler(model, decoder.run, decoder.begin).decode(requests[rank])
        except (RanksDisagree, BrokenBarrierError) as error:
            return str(error)
        return ""

    return ranks, list(await asyncio.gather(*(asyncio.to_thread(run, rank) for rank in range(2))))


def request(name: str, options: EngineOptions, length: int = 20) -> FakeRequest:
    return FakeRequest(prompt(length, length), options, TOKENS, rid=name)


async def test_ranks_that_agree_are_not_disturbed(reference: Reference) -> None:
    each = [[request(f"r{i}", options) for i, options in enumerate(MANY)] for _ in range(2)]
    ranks, ends = await decode(reference, each)
    assert ends == ["", ""]
    assert ranks.exchanges > 10
    assert [one.output_ids for one in each[0]] == [one.output_ids for one in each[1]]


async def test_another_token_on_one_rank_ends_both_with_its_place(reference: Reference) -> None:
    """The second request's seeds differ, so its first step may, or a later one."""
    same, drawn = MANY[0], MANY[-1]
    other = EngineOptions(decision=drawn.decision, sampling=MANY[-2].sampling)
    each = [[request("same", same), request("drawn", options)] for options in (drawn, other)]
    _, ends = await decode(reference, each)
    assert ends[0] == ends[1]
    assert "rank 0 and rank 1 of this engine disagree after a denoise step: request drawn: token " in ends[0]


async def test_ranks_that_decode_different_requests(reference: Reference) -> None:
    _, ends = await decode(reference, [[request("one", MANY[0])], [request("other", MANY[0])]])
    assert ends[0] == ends[1]
    assert "they decode [('one', 0)] and [('other', 0)]" in ends[0]


@pytest.mark.parametrize("ranks", [1, 3])
def test_any_number_of_ranks(ranks: int) -> None:
    RankCheck(lambda own: [own] * ranks)([], _Nothing())  # type: ignore[arg-type]
    with pytest.raises(RanksDisagree, match=r"rank 0 and rank 2 .* they decode"):
        RankCheck(lambda own: [own, own, [("r", 0, [])]])([], _Nothing())  # type: ignore[arg-type]


class _Nothing:
    def read(self, columns: slice) -> list[list[int]]:
        return []
