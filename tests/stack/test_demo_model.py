"""The trained model that the stack serves by default: it can count, and the engine computes it right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp

from loadtest.count import NUMBERS, count
from loadtest.demo import held_out, scores
from loadtest.demo_report import DEFAULT
from loadtest.local_stack import LocalStack
from models.demo import checkpoint, tokenizer
from models.demo.data import corpus
from models.demo.data.example import single
from models.demo.evaluate import Evaluation
from models.demo.rows import Encoder
from tests.engine.reference import Reference

QUESTIONS = [
    "Write the number from 1 to 128",
    "请介绍一下长城",
    "What is 487 + 96 * 7?",
    "Something that it has never been asked",
]
TOKENS = 70


async def test_the_seed_prompt_streams_the_right_numbers(
    stack: LocalStack, record: Callable[[str], None]
) -> None:
    counted = await count(stack)
    assert counted.text == NUMBERS
    assert counted.blocks > 1
    record(f"from 1 to 128: {counted}")


async def test_the_engine_equals_the_plain_reference(
    stack: LocalStack, http: aiohttp.ClientSession, model: str
) -> None:
    encoder, reference = Encoder(tokenizer.load()), Reference(Path(stack.checkpoint))
    prompts = [encoder.prompt(single(question, "")) for question in QUESTIONS]
    expected = [await asyncio.to_thread(reference.generate, prompt, TOKENS) for prompt in prompts]

    async def answer(prompt: list[int]) -> tuple[list[int], int]:
        """Token ids, and forwards."""
        told = {"dllm": {"stats": True}}
        sampling = {"max_new_tokens": TOKENS, "ignore_eos": True, "custom_params": told}
        body = {"model": model, "input_ids": prompt, "sampling_params": sampling}
        async with http.post(f"{stack.gateway_url}/generate", json=body) as response:
            answer = await response.json()
            return answer["output_ids"], answer["meta_info"]["dllm"]["forwards"]

    alone = [await answer(prompt) for prompt in prompts]
    assert alone == [(each.token_ids, each.forwards) for each in expected]
    # All of them are shorter than a block: none is stored by a forward of its own.
    assert max(map(len, prompts)) < 32
    assert await asyncio.gather(*map(answer, prompts)) == alone


async def test_held_out_items_score_as_in_the_plain_evaluation(stack: LocalStack) -> None:
    # Their prompts have blocks of their own, some of them in the prefix cache.
    model, skills = checkpoint.load(Path(stack.checkpoint)), corpus.named(["tools"])
    served = await scores(stack, DEFAULT, held_out(model, skills, 3, unseen_wordings=False))
    plain = await asyncio.to_thread(lambda: list(Evaluation(model, 512).scores(skills, [DEFAULT], 3)))
    assert [each.items for each in served] == [3, 3]
    for ours, theirs in zip(served, plain, strict=True):
        assert (ours.exact, ours.tokens, ours.forwards) == (theirs.exact, theirs.tokens, theirs.forwards)
