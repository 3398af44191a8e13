"""The table of a real engine that runs on this machine's CPU, made from what it is seen to do."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
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
PROMPT_BLOCKS = [0, 1, 3, 7]
_TAIL = BLOCK // 2  # of a prompt, so that its last block is denoised too

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


@dataclass(frozen=True)
class Step:
    """A denoise step that was seen.

    Attributes:
        context: tokens before its rows' blocks, together.
    """

    rows: int
    context: int
    seconds: float


@dataclass(frozen=True)
class First:
    """A request alone, up to its first block.

    Attributes:
        before_s: from its arrival to its first denoise step.
        after_s: from its last one to the client.
    """

    before_s: float
    after_s: float


@dataclass
class Calibration:
    """What was seen so far; more of it makes a better table.

    Args:
        texts: prompts, as token ids.
        tokens: of the answers.
    """

    engine: Engine
    texts: list[list[int]]
    tokens: int
    steps: list[Step] = field(default_factory=list)
    gaps_s: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    firsts: dict[int, list[First]] = field(default_factory=lambda: defaultdict(list))

    async def together(self, batch: int) -> None:
        """So many requests at once."""
        prompts = [self._text() for _ in range(batch)]
        _, rounds = await self._seen(prompts, self.tokens, batch)
        self._note(batch, rounds)

    async def alone(self) -> None:
        """A prompt of each length."""
        for blocks in PROMPT_BLOCKS:
            answers, rounds = await self._seen([self._prompt(blocks)], _TAIL, 1)
            self.firsts[blocks].append(first(answers[0], rounds))

    async def _seen(
        self, prompts: list[list[int]], tokens: int, clients: int
    ) -> tuple[list[Answer], list[Round]]:
        begin = time.perf_counter()
        answers = await together(self.engine.url, prompts, tokens, clients)
        return answers, self.engine.rounds(begin, time.perf_counter())

    def _text(self) -> list[int]:
        text = self.texts.pop()
        self.texts.insert(0, text)
        return text

    def _prompt(self, blocks: int) -> list[int]:
        text = self._text()
        wanted = blocks * BLOCK + _TAIL
        return (text * (wanted // len(text) + 1))[:wanted]

    def _note(self, batch: int, rounds: Sequence[Round]) -> None:
        self.steps += steps(rounds)
        for before, after in pairwise(rounds):
            # A prefix that is shorter is another request's, which the engine may have waited for.
            if before.rows == after.rows == batch and before.prefix <= after.prefix:
                self.gaps_s[batch].append(after.begin_s - before.end_s)

    def table(self, answers: Iterable[Answer]) -> Table:
        """Args: answers: whose blocks' forwards shall be the table's."""
        step_s, context_s = fit(self.steps)
        round_s = {batch: mean(self.gaps_s[batch]) for batch in BATCHES}

        def seen_s(of: Callable[[First], float], blocks: int) -> float:
            return mean(map(of, self.firsts[blocks]))

        before_s = {blocks: seen_s(lambda each: each.before_s, blocks) for blocks in PROMPT_BLOCKS}
        after_s = mean(each.after_s for firsts in self.firsts.values() for each in firsts)
        # The first block of an answer was a prompt's in part.
        blocks = Counter(forwards - 1 for answer in answers for forwards in answer.forwards[1:])
        return Table(
            source="the engine on this machine's CPU, just now",
            step_ms=_ms({batch: step_s[batch] for batch in BATCHES}),
            context_ms=context_s * 1e6,
            # A round of its own, with the time until the next.
            prompt_ms=_ms(
                {
                    blocks: max(before_s[blocks] - before_s[0] - round_s[1], 0.0)
                    for blocks in PROMPT_BLOCKS
                    if blocks
                }
            ),
            round_ms=_ms(round_s),
            commit_ms=0.0,  # is in the time between rounds, of which so many finish blocks here and there
            request_ms=1000 * max(before_s[0] + after_s - round_s[1], 0.0),
            **ROUNDS._asdict(),
            steps=dict(sorted(blocks.items())),
        )


def first(answer: Answer, rounds: Sequence[Round]) -> First:
    """
    Args:
        rounds: until the answer's end, with no other one's among them. Rounds of a prompt alone are none.
    """
    seen_at = answer.asked_at + answer.ttft_s
    before = [each for each in rounds if each.begin_s < seen_at]
    return First(before[0].begin_s - answer.asked_at, seen_at - before[-1].end_s)


def steps(rounds: Sequence[Round]) -> list[Step]:
    """Of rounds without any block of a prompt."""
    found = []
    for each in rounds:
        if {rows for rows, _ in each.computed} == {each.rows}:
            share_s = (each.end_s - each.begin_s) / len(each.computed)
            found += [Step(each.rows, context, share_s) for _, context in each.computed]
    return found


def fit(seen: Sequence[Step]) -> tuple[dict[int, float], float]:
    """Least squares. Returns seconds of a step without context, by its rows; and of a token of context."""
    by_rows: dict[int, list[Step]] = defaultdict(list)
    for each in seen:
        by_rows[each.rows].append(each)
    middle = {
        rows: (mean(each.context for each in steps), mean(each.seconds for each in steps))
        for rows, steps in by_rows.items()
    }
    away = [(each.context - middle[each.rows][0], each.seconds - middle[each.rows][1]) for each in seen]
    spread = sum(context**2 for context, _ in away)
    slope = max(sum(context * seconds for context, seconds in away) / spread, 0.0) if spread else 0.0
    return {rows: seconds - slope * context for rows, (context, seconds) in sorted(middle.items())}, slope


def _ms(seconds: dict[int, float]) -> dict[int, float]:
    return {at: 1000 * value for at, value in seconds.items()}
