"""Prompts: `python -m loadtest.gpu.prompts --out prompts.json`.

An engine of stock's and one of ours run side by side and are asked in turns; figures are medians. Every
token is sure enough, so a block takes two forwards, and what differs is what the prompt costs:

- the time to the first block, by the prompt's length, on an idle engine;
- the longest gap of a running stream while a long prompt arrives, also in steps: forwards of that stream, as
  long as they take when nothing else runs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from loadtest.gpu import engine, table, variants
from loadtest.gpu.engine import Engine, EngineError

_BLOCK = 32
_FORWARDS_A_BLOCK = 2  # one that fills it, and one that stores it
_STREAM_PROMPT = 64
_SETTLED_BLOCKS = 20
_AFTER_BLOCKS = 5


@dataclass(frozen=True)
class Gap:
    """Of a running stream, in milliseconds.

    Attributes:
        usual: from block to block, before the prompt came.
        longest: from the prompt's arrival until shortly after its first block.
        first_block: of the prompt.
    """

    usual: float
    longest: float
    first_block: float

    @property
    def steps(self) -> float:
        return self.longest / (self.usual / _FORWARDS_A_BLOCK)


@dataclass
class Found:
    """Of one engine; milliseconds.

    Attributes:
        first_block: by the prompt's tokens.
    """

    variant: str
    first_block: dict[int, list[float]]
    gaps: list[Gap]


def main() -> None:
    parser = table.parser("prompts", __doc__)
    parser.add_argument("--lengths", nargs="+", type=int, default=[32, 256, 992, 4000], help="tokens")
    parser.add_argument("--long", type=int, default=16_000, help="tokens of the prompt that tears a gap")
    parser.add_argument("--stream", type=int, default=8000, help="tokens that the stream may take")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slots", type=int, default=variants.SLOTS)
    parser.add_argument("--only", choices=["stock", "ours"], help="one side of the comparison")
    arguments = parser.parse_args()
    both = {
        "stock": variants.stock("LowConfidence", arguments.slots, threshold=-1.0),
        "ours": variants.ours(arguments.slots),
    }
    chosen = [both[arguments.only]] if arguments.only else list(both.values())
    with table.machine(arguments) as machine:
        try:
            with engine.started(machine, chosen) as engines:
                asker = _Asker(machine.model, arguments.long, arguments.stream)
                found = asyncio.run(_measure(asker, engines, arguments.lengths, arguments.rounds))
        except EngineError as error:
            sys.exit(str(error))
    arguments.out.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n", "utf-8")
    _show(found)


async def _measure(
    asker: _Asker, engines: Sequence[Engine], lengths: Sequence[int], rounds: int
) -> list[Found]:
    found = {each: Found(each.variant.name, {length: [] for length in lengths}, []) for each in engines}
    async with aiohttp.ClientSession() as http:
        for turn in ["warm", *range(rounds)]:
            for each in engines if turn == "warm" or int(turn) % 2 else reversed(engines):
                for length in lengths:
                    took = await asker.first_block(http, each, length, turn)
                    if turn != "warm":
                        found[each].first_block[length].append(took)
                gap = await asker.gap(http, each, turn)
                if turn != "warm":
                    found[each].gaps.append(gap)
                print(f"{turn} {each.variant.name} {gap}", file=sys.stderr, flush=True)
    return list(found.values())


class _Asker:
    def __init__(self, model: Path, long: int, stream: int) -> None:
        self._model, self._long, self._stream = model, long, stream

    async def first_block(
        self, http: aiohttp.ClientSession, asked: Engine, length: int, turn: object
    ) -> float:
        prompt = engine.prompt(self._model, length, (turn, length))
        begin = time.perf_counter()
        await asked.generate(http, [prompt], _sampling(asked, _BLOCK))
        return 1000 * (time.perf_counter() - begin)

    async def gap(self, http: aiohttp.ClientSession, asked: Engine, turn: object) -> Gap:
        times: list[float] = []
        settled, over = asyncio.Event(), asyncio.Event()
        arrived = answered = 0.0

        async def listen() -> None:
            prompt = engine.prompt(self._model, _STREAM_PROMPT, (turn, "stream"))
            async for _ in asked.stream(http, prompt, _sampling(asked, self._stream)):
                times.append(time.perf_counter())
                if len(times) > _SETTLED_BLOCKS:
                    settled.set()
                if answered and sum(each > answered for each in times[-_AFTER_BLOCKS:]) == _AFTER_BLOCKS:
                    over.set()
            settled.set()
            over.set()

        stream = asyncio.create_task(listen())
        await settled.wait()
        arrived = time.perf_counter()
        long = engine.prompt(self._model, self._long, (turn, "long"))
        await asked.generate(http, [long], _sampling(asked, _BLOCK))
        answered = time.perf_counter()
        await over.wait()
        # What is left of it is aborted with its connection.
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)
        await asyncio.sleep(0.5)
        if times[-1] < answered:
            raise EngineError(f"{asked.variant.name}: the stream ended before the prompt's answer")
        gaps = [(second, 1000 * (second - first)) for first, second in pairwise(times)]
        usual = median(gap for end, gap in gaps if end < arrived)
        longest = max(gap for end, gap in gaps if end > arrived)
        return Gap(usual, longest, 1000 * (answered - arrived))


def _sampling(asked: Engine, tokens: int) -> dict[str, Any]:
    sampling: dict[str, Any] = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    if asked.variant.extension:
        sampling |= variants.decided("LowConfidence", {"threshold": 0.0})
    return sampling


def _show(found: Sequence[Found]) -> None:
    heads = ["", *(f"{each.variant}, ms" for each in found), "stock / ours"]
    rows: list[list[object]] = []
    for length in found[0].first_block:
        times = [median(each.first_block[length]) for each in found]
        rows.append([f"{length:,} tokens, first block", *times, times[0] / times[-1]])
    for name in ("usual", "longest", "steps", "first_block"):
        of_each = [median(getattr(gap, name) for gap in each.gaps) for each in found]
        rows.append([f"long prompt: {name}", *of_each, of_each[0] / of_each[-1]])
    worst = [max(gap.longest for gap in each.gaps) for each in found]
    rows.append(["long prompt: longest of all rounds", *worst, worst[0] / worst[-1]])
    table.show(heads, rows)


if __name__ == "__main__":
    main()
