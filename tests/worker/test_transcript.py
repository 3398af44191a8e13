"""How an answer ends, and where a worker refuses to go on; see also test_continuation.py."""

from __future__ import annotations

import pytest

from dllm_stack.messages import Committed, Work
from dllm_stack.work import NONE
from worker.engine.client import Finish
from worker.transcript import Diverged, Piece, Transcript

LENGTH = Finish("length")


def decode(token_ids: list[int], *, special: bool) -> str:
    """Tokens are bytes; 0 is special."""
    shown = b"".join((b"<end>" if special else b"") if each == 0 else bytes([each]) for each in token_ids)
    return shown.decode(errors="replace")


def transcript(*stop: str, committed: str = "", sent: int | None = None, kept: int = 0) -> Transcript:
    before = Committed(
        token_ids=list(committed.encode()), characters=len(committed) if sent is None else sent
    )
    return Transcript(decode, [1], list(stop), before, kept)


def ids(text: str) -> list[int]:
    return list(text.encode())


def test_a_stop_string_that_the_engine_has_missed_ends_the_answer() -> None:
    answer = transcript("STOP")
    assert answer.read(ids("one S"), None) == Piece(ids("one S"), "one ", None)
    assert answer.read(ids("TOP two"), None) == Piece(ids("TOP"), "", Finish("stop", "STOP"))


def test_a_stop_string_across_two_attempts_ends_the_answer() -> None:
    answer = transcript("STOP", committed="one ST", sent=4, kept=6)
    assert answer.read(ids("OP two"), None) == Piece(ids("OP"), "", Finish("stop", "STOP"))


def test_a_stop_string_may_name_special_tokens_across_two_attempts() -> None:
    answer = transcript("S<end>T", committed="one S", sent=4, kept=5)
    piece = answer.read([0, *ids("TWO")], None)
    assert piece == Piece([0, *ids("T")], "ST", Finish("stop", "S<end>T"))


def test_the_first_of_several_stop_strings_ends_the_answer() -> None:
    piece = transcript("later", "sooner").read(ids("a sooner or later"), Finish("stop", "later"))
    assert piece == Piece(ids("a sooner"), "a ", Finish("stop", "sooner"))


def test_what_the_engine_generates_again_is_not_sent_again() -> None:
    answer = transcript(committed="abcd", kept=2)
    assert answer.read(ids("c"), None) == Piece([], "", None, known=1)
    assert answer.read(ids("de"), None) == Piece(ids("e"), "e", None, known=1)
    assert answer.read(ids("f"), LENGTH) == Piece(ids("f"), "f", LENGTH)


def test_work_belongs_to_the_tokens_it_was_done_for() -> None:
    """A block's work is told with its first token: by the attempt that sent it."""
    three, four = Work(forwards=3), Work(forwards=4)
    answer = transcript("STOP", committed="abcd", kept=2)
    assert answer.read(ids("cd"), None, [three, NONE]).work == NONE
    assert answer.read(ids("eSTOP"), None, [three, *[NONE] * 3, four]).work == Work(forwards=7)
    answer = transcript("STOP", committed="ab", kept=2)
    assert answer.read(ids("STOPx"), None, [three, NONE, NONE, NONE, four]).work == three
    assert transcript().read(ids("ab"), None).work == NONE
    assert transcript().read(ids("ab"), None, [three]).work == three


def test_an_answer_that_was_whole_already_ends_without_more() -> None:
    answer = transcript(committed="ab", kept=1)
    assert answer.read(ids("b"), LENGTH) == Piece([], "", LENGTH, known=1)


def test_text_held_back_by_an_earlier_attempt_is_sent_at_the_end() -> None:
    answer = transcript("STOP", committed="one ST", sent=4, kept=5)
    assert answer.read(ids("T"), LENGTH) == Piece([], "ST", LENGTH, known=1)


@pytest.mark.parametrize(
    ("next_ids", "finish", "how"),
    [
        (ids("cX"), None, "other tokens"),
        (ids("c"), LENGTH, "shorter"),
        (ids("c"), Finish("stop", 0), "shorter"),
    ],
)
def test_another_answer_than_the_one_begun_is_refused(
    next_ids: list[int], finish: Finish | None, how: str
) -> None:
    with pytest.raises(Diverged, match=how):
        transcript(committed="abcd", kept=2).read(next_ids, finish)


def test_a_shorter_answer_is_refused_even_if_its_text_was_not_sent() -> None:
    with pytest.raises(Diverged, match="shorter"):
        transcript(committed="abcd", sent=2, kept=2).read(ids("c"), LENGTH)


def test_another_text_than_the_one_begun_is_refused() -> None:
    with pytest.raises(Diverged, match="shorter"):
        transcript(committed="ab", sent=5, kept=2).read(ids("c"), LENGTH)


def test_an_unfinished_character_is_no_stop_string() -> None:
    answer = transcript("\N{REPLACEMENT CHARACTER}")
    first, second = ids("🙂")[:2], ids("🙂")[2:]
    assert answer.read(first, None).ending is None
    assert answer.read(second, None) == Piece(second, "🙂", None)


def test_an_empty_stop_string_is_none() -> None:
    assert transcript("").read(ids("abc"), None) == Piece(ids("abc"), "abc", None)


@pytest.mark.parametrize("stop", [(), ("中x",)])
def test_text_that_may_come_later_comes_with_the_next_that_may_not(stop: tuple[str, ...]) -> None:
    """Whole, wherever its characters and its attempts are cut."""
    tokens = [*ids("a中"), 0, *ids("b😀c")]
    for first in range(len(tokens)):
        answer = transcript(*stop)
        sent = answer.read(tokens[:first], None).text
        for second in range(first, len(tokens)):
            later = transcript(*stop, sent=len(sent))
            later.read(tokens[:first], None, later=True)
            told = [later.read(tokens[at : at + 1], None, later=True).text for at in range(first, second)]
            assert stop or not any(told)
            told.append(later.read(tokens[second:], LENGTH, later=True).text)
            assert sent + "".join(told) == "a中b😀c"
