"""The simulator's rounds, on a clock of the test's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import msgspec
import pytest

from loadtest.simulator import published, rounds
from loadtest.simulator.__main__ import CHECKPOINT
from loadtest.simulator.clock import ComputedClock
from loadtest.simulator.engine import Finish, Request, SimulatedEngine
from loadtest.simulator.rounds import MeasuredPace
from loadtest.simulator.table import TABLES, Acceptance, Curve, Table
from loadtest.simulator.voice import BLOCK, Voice
from worker.dllm import decoder

TABLE = Table(
    source="made up",
    step_ms={1: 10, 2: 12, 8: 24},
    context_ms=0,
    prompt_ms={1: 5, 4: 8},
    round_ms={1: 2},
    commit_ms=0.0,
    request_ms=4,
    prompt_rows=16,
    mixed_prompt_rows=8,
    steps_per_round=64,
    steps={3: 1},
)
FORWARDS = 4  # of its blocks


@pytest.fixture(scope="module")
def voice() -> Voice:
    return Voice(CHECKPOINT)


@dataclass
class Seen:
    """Of one request: when each block came, in milliseconds, and how it ended."""

    at_ms: list[float] = field(default_factory=list)
    finish: Finish | None = None


class Stand:
    def __init__(self, voice: Voice, clock: ComputedClock, table: Table, slots: int = 8) -> None:
        self.clock = clock
        self.engine = SimulatedEngine(voice, slots, MeasuredPace(table), clock)
        self.seen: dict[str, Seen] = {}

    def ask(self, rid: str, prompt: int = 1, tokens: int = BLOCK - 1, first: int = 100) -> Request:
        """Args: prompt: its tokens."""
        seen = self.seen[rid] = Seen()

        def tell(request: Request, finish: Finish | None) -> None:
            seen.at_ms.append(self.clock.time * 1000)
            seen.finish = finish

        return self.engine.submit(rid, [first] * prompt, tokens, tell)


@pytest.fixture
def clock() -> ComputedClock:
    return ComputedClock()


def with_steps(**changes: Any) -> Table:
    return msgspec.structs.replace(TABLE, **changes)


def test_rounds_end_as_the_decoder_ends_them() -> None:
    assert (rounds.LEAVE_TOGETHER, rounds.PATIENCE, rounds.FEW_ROWS) == (
        decoder._LEAVE_TOGETHER,
        decoder._PATIENCE,
        decoder._FEW_ROWS,
    )


def test_one_request_takes_what_the_table_says(voice: Voice, clock: ComputedClock) -> None:
    stand = Stand(voice, clock, TABLE)
    stand.ask("a", prompt=4 * BLOCK, tokens=2 * BLOCK)
    clock.run()
    first = 4 + (8 + 2) + FORWARDS * 10 + 2
    assert stand.seen["a"].at_ms == pytest.approx([first, first + FORWARDS * 10 + 2])
    assert stand.seen["a"].finish == "length"


def test_neighbours_step_together_and_cost_what_their_number_does(voice: Voice, clock: ComputedClock) -> None:
    stand = Stand(voice, clock, TABLE)
    for rid in "abcdefgh":
        stand.ask(rid, prompt=BLOCK, tokens=2 * BLOCK)
    clock.run()
    # One prompt was alone, the others came in the next round, and its block then finished first.
    assert len({tuple(seen.at_ms) for rid, seen in stand.seen.items() if rid != "a"}) == 1
    (first, second) = stand.seen["h"].at_ms
    assert second - first == pytest.approx(FORWARDS * 24 + 2, rel=0.25)
    assert second - first > 2 * (FORWARDS * 10 + 2)


def test_what_stands_before_a_block_costs(voice: Voice, clock: ComputedClock) -> None:
    stand = Stand(voice, clock, with_steps(context_ms=100))
    stand.ask("a", prompt=2 * BLOCK, tokens=2 * BLOCK)
    clock.run()
    (first, second) = stand.seen["a"].at_ms
    assert second - first == pytest.approx(FORWARDS * (10 + 0.1 * 3 * BLOCK) + 2)


def test_so_does_what_stands_before_a_prompts_blocks(voice: Voice) -> None:
    first_ms = {}
    for context_ms in (0, 100):
        clock = ComputedClock()
        stand = Stand(voice, clock, with_steps(context_ms=context_ms, step_ms={1: 10}, steps={30: 1}))
        stand.ask("stream")
        clock.run(until=0.02)
        stand.ask("prompt", prompt=2 * BLOCK, tokens=1)
        clock.run()
        first_ms[context_ms] = stand.seen["prompt"].at_ms[0]
    # Of its two blocks, beside the stream, one has 32 tokens before it; of its answer's each step 64.
    assert first_ms[100] - first_ms[0] == pytest.approx(0.1 * BLOCK + 31 * 0.1 * 2 * BLOCK)


def test_a_late_timer_does_not_slow_it_down(voice: Voice, clock: ComputedClock) -> None:
    ends = []
    for late_ms in (0.0, 7.0):
        clock.time, clock.late_s = 0.0, late_ms / 1000
        stand = Stand(voice, clock, TABLE)
        stand.ask("a", tokens=20 * BLOCK)
        clock.run()
        ends.append(stand.seen["a"].at_ms[-1])
    assert ends[1] - ends[0] == pytest.approx(7.0)


def test_an_arrival_ends_the_round_with_the_step_under_way(voice: Voice, clock: ComputedClock) -> None:
    stand = Stand(voice, clock, with_steps(steps={30: 1}))
    stand.ask("long")
    clock.run(until=0.025)  # 4 until it begins, then the third step
    stand.ask("short", prompt=31, tokens=1)  # one token to commit: a step, and the forward that stores it
    clock.run()
    assert stand.seen["short"].at_ms == pytest.approx([4 + 3 * 10 + 2 + 2 * 12 + 2])


def test_whoever_waits_begins_when_a_slot_is_free(voice: Voice, clock: ComputedClock) -> None:
    stand = Stand(voice, clock, TABLE, slots=1)
    stand.ask("a")
    stand.ask("b")
    assert (stand.engine.running, stand.engine.waiting) == (1, 1)
    clock.run()
    # The second, which has a slot only afterwards, ends a round of the first when it comes.
    (ended,) = stand.seen["a"].at_ms
    assert stand.seen["b"].at_ms == pytest.approx([ended + FORWARDS * 10 + 2])
    assert (stand.engine.running, stand.engine.waiting) == (0, 0)


def test_an_abort_ends_it_and_frees_its_slot(voice: Voice, clock: ComputedClock) -> None:
    stand = Stand(voice, clock, TABLE, slots=1)
    stand.ask("a", tokens=50 * BLOCK)
    clock.run(until=0.1)
    stand.ask("b")
    stand.engine.abort("a")
    assert stand.seen["a"].finish == "abort"
    clock.run()
    assert stand.seen["b"].finish == "length"
    assert clock.time < 0.3
    assert stand.engine.totals().completed == 1


def test_a_vanished_client_leaves_nothing_behind(voice: Voice, clock: ComputedClock) -> None:
    stand = Stand(voice, clock, TABLE)
    requests = [stand.ask(rid, prompt=length) for rid, length in (("a", 1), ("b", 200), ("c", 33))]
    clock.run(until=0.02)
    for request in requests:
        stand.engine.drop(request)
    stand.engine.drop(requests[0])  # a second time
    clock.run()
    assert all(seen.finish is None for seen in stand.seen.values())
    assert (stand.engine.running, stand.engine.waiting) == (0, 0)
    stand.ask("d")
    clock.run()
    assert stand.seen["d"].finish == "length"


def test_long_prompts_and_streams_go_on_side_by_side(voice: Voice, clock: ComputedClock) -> None:
    stand = Stand(voice, clock, with_steps(step_ms={1: 10, 9: 30}))
    stand.ask("stream", tokens=10 * BLOCK)
    clock.run(until=0.05)
    stand.ask("prompt", prompt=70 * BLOCK, tokens=1)
    clock.run()
    gaps = [b - a for a, b in zip(stand.seen["stream"].at_ms, stand.seen["stream"].at_ms[1:], strict=False)]
    # Two steps a round, the first of which has 7 blocks of the prompt along.
    assert max(gaps) == pytest.approx(2 * (27.5 - 2.5 + 10 + 2), rel=0.1)
    # The prompt takes ten such rounds.
    assert stand.seen["prompt"].at_ms[0] > 50 + 10 * 30


def test_forwards_follow_from_request_and_seed_alone(voice: Voice, clock: ComputedClock) -> None:
    table = with_steps(steps={1: 3, 5: 1, 12: 1})

    def forwards(voice: Voice, neighbours: int) -> list[int]:
        stand = Stand(voice, clock, table)
        asked = stand.ask("asked", tokens=20 * BLOCK)
        for number in range(neighbours):
            stand.ask(f"n{number}", tokens=5 * BLOCK, first=200 + number)
        clock.run()
        return list(asked.forwards.values())

    alone = forwards(voice, 0)
    assert alone == forwards(voice, 7)
    assert len(alone) == 21
    assert len(set(alone)) > 1
    assert alone != forwards(Voice(CHECKPOINT, seed=1), 0)


def test_a_continued_answer_takes_the_same_forwards(voice: Voice, clock: ComputedClock) -> None:
    table = with_steps(steps={1: 3, 5: 1, 12: 1})
    stand = Stand(voice, clock, table)
    whole = stand.ask("whole", prompt=BLOCK, tokens=8 * BLOCK)
    clock.run()
    kept = 3 * BLOCK
    prompt = [100] * BLOCK + whole.answer.ids[:kept]
    rest = stand.engine.submit("rest", prompt, 5 * BLOCK, lambda request, finish: None)
    clock.run()
    assert rest.answer.ids == whole.answer.ids[kept:]
    assert list(rest.forwards.values()) == list(whole.forwards.values())[3:]


def test_thousands_of_slots_are_one_timer(voice: Voice, clock: ComputedClock) -> None:
    stand = Stand(voice, clock, TABLE, slots=2000)
    for number in range(2000):
        stand.ask(str(number), tokens=4 * BLOCK, first=number)
    clock.run()
    assert all(seen.finish == "length" for seen in stand.seen.values())
    assert stand.engine.totals().blocks == 2000 * 5
    # As few as if all had run in step: the first one began by itself.
    assert clock.rings < 20


def test_lines_are_drawn_between_what_was_measured_and_beyond() -> None:
    curve = Curve({1: 10, 3: 20, 5: 60})
    assert [curve(at) for at in (0, 1, 2, 4, 7)] == pytest.approx([0.01, 0.01, 0.015, 0.04, 0.1])


def test_acceptance_is_the_histogram() -> None:
    acceptance = Acceptance({2: 1, 8: 3})
    drawn = [acceptance(chance / 100, BLOCK) for chance in range(100)]
    assert mean(drawn) == pytest.approx((2 + 3 * 8) / 4, abs=0.1)
    # Of half a block, half as many steps; of one token one.
    assert [acceptance(0.9, masked) for masked in (BLOCK // 2, 1)] == [4, 1]
    assert acceptance(1.0, BLOCK) == 8


@pytest.mark.parametrize("name", sorted(each.stem for each in TABLES.glob("*.json")))
def test_tables_that_come_with_it_can_be_read(name: str) -> None:
    table = Table.read(name)
    assert 1 < table.tokens_a_forward < BLOCK
    curve = Curve(table.step_ms)
    assert sorted(map(curve, range(1, 200))) == list(map(curve, range(1, 200)))


def test_a_wrong_table_is_refused_by_its_name(tmp_path: Any) -> None:
    file = tmp_path / "mine.json"
    file.write_bytes(msgspec.json.encode(with_steps(step_ms={})))
    with pytest.raises(ValueError, match=r"mine\.json: step_ms"):
        Table.read(str(file))
    file.write_text("{}")
    with pytest.raises(ValueError, match="source"):
        Table.read(str(file))


def test_it_does_what_the_h200_did(voice: Voice) -> None:
    figures = list(published.figures(voice))
    assert len(figures) == 11
    far = [figure for figure in figures if figure.must_agree and abs(figure.ratio - 1) > 0.1]
    assert not far
    assert sum(figure.must_agree for figure in figures) == 10
