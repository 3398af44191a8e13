"""The table of a real engine that runs on this machine's CPU, made from what it is seen to do."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean

from loadtest.gpu.engine import Engine, Variant
from loadtest.gpu.hooks.rounds import Round
from loadtest.simulator.load import Answer, together
from loadtest.simulator.table import Table
from loadtest.simulator.voice import BLOCK
from worker.engine.decoder_file import Rounds

SLOTS = 8
ROUNDS = Rounds(prompt_rows=16, mixed_prompt_rows=8, steps_per_round=4)  # those of a CPU
BATCHES = [1, 2, 4, 8]
PROMPT_BLOCKS = [0, 1, 4, 12]
_TOKENS = 5 * BLOCK
_TAIL = BLOCK // 2  # of a prompt, so that its last block is denoised too
_REPEATS = 2

VARIANT = Variant(
    "real",
    "PerRequest",
    {
        "slots": SLOTS,
        **ROUNDS._asdict(),
        "default": {"algorithm": "LowConfidence", "threshold": 0.95},
    },
    rows=SLOTS + ROUNDS.rows,
    extension=True,
)


@dataclass
class Calibration:
    """What was seen so far; more of it makes a better table.

    Args:
        texts: prompts, as token ids.
    """

    engine: Engine
    texts: list[list[int]]
    runs: dict[int, list[Round]] = field(default_factory=lambda: defaultdict(list))
    gaps_s: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    firsts: dict[int, list[Answer]] = field(default_factory=lambda: defaultdict(list))
    answers: list[Answer] = field(default_factory=list)

    async def go_on(self) -> None:
        """Batches of each size together, and prompts of each length alone."""
        for batch in BATCHES:
            begin = time.perf_counter()
            prompts = [self._text() for _ in range(batch * _REPEATS)]
            self.answers += await together(self.engine.url, prompts, _TOKENS, batch)
            self._note(batch, self.engine.rounds(begin, time.perf_counter()))
        for _ in range(_REPEATS):
            for blocks in PROMPT_BLOCKS:
                self.firsts[blocks] += await together(self.engine.url, [self._prompt(blocks)], _TAIL, 1)

    def _text(self) -> list[int]:
        text = self.texts.pop()
        self.texts.insert(0, text)
        return text

    def _prompt(self, blocks: int) -> list[int]:
        text = self._text()
        wanted = blocks * BLOCK + _TAIL
        return (text * (wanted // len(text) + 1))[:wanted]

    def _note(self, batch: int, rounds: Sequence[Round]) -> None:
        # With so many clients no prompt is under way then.
        self.runs[batch] += [each for each in rounds if each.rows == batch]
        for before, after in pairwise(rounds):
            # A prefix that is shorter is another request's, which the engine may have waited for.
            if before.rows == after.rows == batch and before.prefix <= after.prefix:
                self.gaps_s[batch].append(after.begin_s - before.end_s)

    def table(self) -> Table:
        step_s = {batch: _step_s(self.runs[batch]) for batch in BATCHES}
        round_s = {batch: mean(self.gaps_s[batch]) for batch in BATCHES}

        def rest_s(answer: Answer) -> float:
            """Of the time to the first block what are not its forwards and their rounds."""
            forwards = answer.forwards[0]
            rounds = -(-forwards // ROUNDS.steps_per_round)
            return answer.ttft_s - forwards * step_s[1] - rounds * round_s[1]

        rests_s = {blocks: mean(map(rest_s, answers)) for blocks, answers in self.firsts.items()}
        prompt_s = {
            blocks: max(rests_s[blocks] - rests_s[0] - round_s[1], 0.0) for blocks in PROMPT_BLOCKS if blocks
        }
        # The first block of an answer was a prompt's in part.
        steps = Counter(forwards - 1 for answer in self.answers for forwards in answer.forwards[1:])
        return Table(
            source="the engine on this machine's CPU, just now",
            step_ms=_ms(step_s),
            prompt_ms=_ms(prompt_s),
            round_ms=_ms(round_s),
            commit_ms=0.0,  # is in the time between rounds, of which so many finish blocks here and there
            request_ms=1000 * max(rests_s[0], 0.0),
            **ROUNDS._asdict(),
            steps=dict(sorted(steps.items())),
        )


def _step_s(rounds: Sequence[Round]) -> float:
    return sum(each.end_s - each.begin_s for each in rounds) / sum(len(each.forwards_s) for each in rounds)


def _ms(seconds: dict[int, float]) -> dict[int, float]:
    return {at: 1000 * value for at, value in seconds.items()}
