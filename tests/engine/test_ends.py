"""An answer ends at its first end token, stop string or longest length, also where one block has several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tokenizers import Tokenizer

from tests.engine.decoding.requests import prompt
from worker.dllm.requests import EDITS, FORWARDS, STEPS

pytestmark = pytest.mark.timeout(700)  # the engine's start included

PROMPT = prompt(8, 40)
FIRST, SECOND = 24, 56  # where its answer's first two blocks end
LONGEST = 50  # inside the second block


@dataclass(frozen=True)
class Written:
    """An answer of two blocks that nothing has ended, and what occurs first in its second block.

    Attributes:
        places: each token's id by its place.
        words: each token's text by its place.
    """

    ids: list[int]
    places: dict[int, int]
    words: dict[int, str]
    forwards: int


@pytest.fixture
async def written(engine: httpx.AsyncClient, tokenizer: Tokenizer) -> Written:
    answer = await ask(engine, SECOND, ignore_eos=True)
    ids: list[int] = answer["output_ids"]
    places = {place: ids[place] for place in range(FIRST, SECOND) if ids[place] not in ids[:place]}
    words = {place: tokenizer.decode([token]).strip() for place, token in places.items()}
    texts = {place: tokenizer.decode(ids[:place]) for place in places}
    words = {place: word for place, word in words.items() if len(word) > 2 and word not in texts[place]}
    return Written(ids, places, words, sum(answer["meta_info"][FORWARDS]))


async def ask(engine: httpx.AsyncClient, longest: int, **ends: Any) -> dict[str, Any]:
    sampling = {"temperature": 0, "max_new_tokens": longest} | ends
    response = await engine.post("/generate", json={"input_ids": PROMPT, "sampling_params": sampling})
    answer: dict[str, Any] = response.raise_for_status().json()
    return answer


def assert_ends(answer: dict[str, Any], written: Written, tokens: int, reason: dict[str, Any]) -> None:
    info = answer["meta_info"]
    assert (answer["output_ids"], info["finish_reason"]) == (written.ids[:tokens], reason)
    assert info["completion_tokens"] == tokens
    assert {len(info[key]) for key in (FORWARDS, STEPS, EDITS)} == {tokens}
    assert sum(info[FORWARDS]) == written.forwards


async def test_an_end_token_in_the_block_of_the_longest_length(
    engine: httpx.AsyncClient, written: Written
) -> None:
    place = min(written.places)
    token = written.places[place]
    for longest in (LONGEST, place + 1):  # also the very last
        answer = await ask(engine, longest, stop_token_ids=[token])
        assert_ends(answer, written, place + 1, {"type": "stop", "matched": token})


async def test_a_stop_string_in_the_block_of_the_longest_length(
    engine: httpx.AsyncClient, written: Written
) -> None:
    place, word = min(written.words.items())
    answer = await ask(engine, LONGEST, stop=[word], ignore_eos=True)
    assert_ends(answer, written, place + 1, {"type": "stop", "matched": word})
    assert word not in answer["text"]


async def test_the_first_of_two_ends(engine: httpx.AsyncClient, written: Written) -> None:
    (first, first_word), *_, (later, later_word) = sorted(
        (place, word) for place, word in written.words.items() if place < LONGEST
    )
    first_token, later_token = written.places[first], written.places[later]
    for longest in (LONGEST, SECOND + 20):
        answer = await ask(engine, longest, stop=[later_word], stop_token_ids=[first_token])
        assert_ends(answer, written, first + 1, {"type": "stop", "matched": first_token})
        answer = await ask(engine, longest, stop=[first_word], stop_token_ids=[later_token])
        assert_ends(answer, written, first + 1, {"type": "stop", "matched": first_word})
        answer = await ask(engine, longest, stop=[later_word, first_word], ignore_eos=True)
        assert_ends(answer, written, first + 1, {"type": "stop", "matched": first_word})


async def test_an_end_behind_the_longest_length_is_none(engine: httpx.AsyncClient, written: Written) -> None:
    place, token = max(written.places.items())
    answer = await ask(engine, place, stop_token_ids=[token])
    assert_ends(answer, written, place, {"type": "length", "length": place})
