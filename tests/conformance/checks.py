"""What is right of an answer: each raises AssertionError unless it is, given the usual answer beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.conformance.case import TOKENS
from tests.conformance.seen import Seen

Check = Callable[[Seen, Seen], None]


def counts(seen: Seen, usual: Seen) -> None:
    assert usual.text.startswith("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11")
    assert usual.finish == "length"
    assert usual.tokens == TOKENS


def has_tokens(count: int) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert (seen.tokens, seen.finish) == (count, "length")
        assert seen.text.startswith(usual.text) if count > TOKENS else usual.text.startswith(seen.text)

    return check


def ends_before(stop: str, *, counted: int | None = None) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert seen.text == usual.text[: usual.text.index(stop)]
        assert seen.finish == "stop"
        assert counted is None or seen.tokens == counted

    return check


def ended_by(matched: Any) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert seen.finish == "stop"
        assert seen.choices[0].matched == matched
        assert usual.text.startswith(seen.text)

    return check


def goes_on(seen: Seen, usual: Seen) -> None:
    assert (seen.tokens, seen.finish) == (TOKENS, "length")


def stops_by_itself(seen: Seen, usual: Seen) -> None:
    assert seen.finish == "stop"
    assert seen.tokens is not None
    assert seen.tokens < TOKENS


def answers(seen: Seen, usual: Seen) -> None:
    assert seen.text
    assert seen.finish in ("stop", "length")


def contains(*words: str) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert all(word in seen.text for word in words), seen.text

    return check


def tells(name: str, value: Any) -> Check:
    """Every event, or the document, has this."""

    def check(seen: Seen, usual: Seen) -> None:
        assert [event[name] for event in seen.events] == [value] * len(seen.events)

    return check


def named(suffix: str) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert all(event["model"].endswith(suffix) for event in seen.events)
        assert seen.text

    return check


def costs(seen: Seen, usual: Seen) -> None:
    cost = seen.last["meta_info"]["dllm"] if "meta_info" in seen.last else seen.last["dllm"]
    assert cost["tokens"] == seen.tokens == TOKENS
    assert cost["blocks"] == len(cost["per_block"])
    assert cost["forwards"] >= cost["steps"] > 0
    assert seen.text == usual.text


def streams(seen: Seen, usual: Seen) -> None:
    assert seen.streamed
    assert len(seen.events) >= 2  # on a busy machine one may carry two blocks
    assert seen.text == usual.text


def is_at_once(seen: Seen, usual: Seen) -> None:
    assert not seen.streamed
    assert seen.text == usual.text


def usage_is_last(seen: Seen, usual: Seen) -> None:
    *others, last = seen.events
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == TOKENS
    assert all(event["usage"] is None for event in others)


def usage_always(seen: Seen, usual: Seen) -> None:
    counts = [event["usage"]["completion_tokens"] for event in seen.events]
    assert counts == sorted(counts)
    assert counts[-1] == TOKENS


def no_usage(seen: Seen, usual: Seen) -> None:
    assert seen.usage is None
    assert seen.text == usual.text


def several(count: int) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert len(seen.choices) == count
        assert all(choice.finish for choice in seen.choices)
        assert seen.choices[0].text == usual.text
        assert seen.choices[1].text != usual.text
        assert seen.tokens is not None
        assert seen.tokens > TOKENS

    return check


def in_a_list(seen: Seen, usual: Seen) -> None:
    (document,) = seen.events
    assert isinstance(document, list) or seen.streamed
    assert seen.text == usual.text


def has_choices(count: int) -> Check:
    def check(seen: Seen, usual: Seen) -> None:
        assert len(seen.choices) == count
        assert all(choice.finish for choice in seen.choices)

    return check
