"""What is sent again is cut as it was, so that each block's work comes with it, once."""

from __future__ import annotations

from msgspec.structs import replace

from dllm_stack.messages import Block, Committed, Part, Place, Work
from worker.outbox import Outbox

THREE, FOUR = Work(forwards=3, steps=2), Work(forwards=4, steps=3, edits=1)


def block(token_ids: list[int], text: str, work: Work) -> Block:
    return Block(text=text, token_ids=token_ids, prompt_tokens=9, work=work)


def test_blocks_of_a_continued_answer() -> None:
    outbox = Outbox(Committed(token_ids=[1, 2], characters=2))
    outbox.prompt_tokens = 9
    outbox.add([3, 4], "c", THREE)
    outbox.add([], "d")
    outbox.add([5], "ef", FOUR)
    assert outbox.end == Place(5, 6)
    assert outbox.behind(2) == (Place(2, 2), block([3, 4], "c", THREE))
    assert outbox.behind(4) == (Place(4, 3), block([5], "def", FOUR))
    assert outbox.behind(5) == (Place(5, 6), block([], "", Work()))
    outbox.add([], "g")
    assert outbox.behind(5) == (Place(5, 6), block([], "g", Work()))
    assert [outbox.reaches(tokens) for tokens in range(6)] == [False, False, True, False, True, True]


def test_what_is_joined_is_sent_as_one_block() -> None:
    outbox = Outbox(Committed())
    outbox.prompt_tokens = 9
    outbox.add([1], "a", THREE)
    outbox.add([2, 3], "bc", FOUR)
    outbox.add([4], "", THREE, joined=True)
    outbox.add([], "d", joined=True)
    whole = replace(
        block([2, 3, 4], "bcd", Work(forwards=7, steps=5, edits=1)), parts=[Part(2, FOUR), Part(1, THREE)]
    )
    assert outbox.behind(1) == (Place(1, 1), whole)
    assert outbox.end == Place(4, 4)
    assert not outbox.reaches(3)
    outbox.add([5], "e", FOUR)
    assert outbox.behind(4) == (Place(4, 4), block([5], "e", FOUR))
