"""Asks the questions, several at once, and counts."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import aiohttp
import msgspec

from dllm_stack.bench.endpoints import Answer, refusal
from dllm_stack.eval.notebook import Done, Notebook
from dllm_stack.eval.questions import Exam, result

_BUSY = (429, 503)  # asked again, when the server says
_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_Z = 1.96  # of a 95 % interval


class Unanswered(Exception):
    """The message says why."""


@dataclass(frozen=True)
class Asker:
    """
    Attributes:
        patience_s: how long a question is asked again while the server is busy.
    """

    http: aiohttp.ClientSession
    url: str
    headers: dict[str, str]
    model: str
    patience_s: float

    async def ask(self, exam: Exam, number: int) -> tuple[Answer, float]:
        """The answer, and the seconds that it took.

        Raises:
            Unanswered
        """
        body = msgspec.json.encode(exam.body(number, self.model))
        began = time.monotonic()
        while True:
            sent = time.perf_counter()
            try:
                url = self.url + exam.endpoint.path
                async with self.http.post(url, data=body, headers=self.headers) as response:
                    content, status = await response.read(), response.status
                    again = response.headers.get("Retry-After", "")
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise Unanswered(f"{type(error).__name__}: {error}") from None
            if status == 200:
                answer = Answer()
                try:
                    exam.endpoint.read(content, answer)
                except msgspec.MsgspecError as error:
                    raise Unanswered(f"unreadable answer: {error}") from None
                return answer, time.perf_counter() - sent
            pause = min(float(again) if again.isdigit() else _PAUSE_S, _LONGEST_PAUSE_S)
            if status not in _BUSY or time.monotonic() - began + pause > self.patience_s:
                code, message = refusal(content)
                raise Unanswered(f"{status} {code}: {message}")
            await asyncio.sleep(pause)


async def run(
    exam: Exam,
    numbers: list[int],
    notebook: Notebook,
    asker: Asker,
    parallel: int,
    advance: Callable[[bool], None],
) -> list[str]:
    """Asks those that are not done. Returns why some are not then."""
    missing = iter([number for number in numbers if number not in notebook.done])
    began, failures = time.perf_counter(), list[str]()

    async def one_after_another() -> None:
        for number in missing:
            try:
                answer, latency_s = await asker.ask(exam, number)
            except Unanswered as error:
                failures.append(f"question {number}: {error}")
                advance(False)
                continue
            notebook.add(
                Done(
                    number=number,
                    session=notebook.session,
                    at_s=time.perf_counter() - began,
                    latency_s=latency_s,
                    tokens=answer.tokens or 0,
                    text=answer.text,
                    result=result(answer.text),
                    label=exam.label(number),
                )
            )
            advance(True)

    async with asyncio.TaskGroup() as group:
        for _ in range(parallel):
            group.create_task(one_after_another())
    return failures


def lines(numbers: list[int], notebook: Notebook) -> Iterator[str]:
    """few_shot_gsm8k's four, and a few more."""
    done = [notebook.done[number] for number in numbers if number in notebook.done]
    ends: dict[int, float] = {}
    for each in done:
        ends[each.session] = max(ends.get(each.session, 0.0), each.at_s)
    seconds, count = sum(ends.values()), len(done)
    right, tokens = sum(each.right for each in done), sum(each.tokens for each in done)
    yield f"Accuracy: {right / count:.3f}"
    yield f"Invalid: {sum(each.result is None for each in done) / count:.3f}"
    yield f"Latency: {seconds:.3f} s"
    yield f"Output throughput: {tokens / seconds:.3f} token/s"
    low, high = wilson(right, count)
    yield f"Right: {right} of {count}, with 95 % confidence {low:.3f} to {high:.3f}"
    yield f"Output tokens: {tokens}, {tokens / count:.1f} an answer"
    if len(ends) > 1:
        yield f"Sessions: {len(ends)}; their times are added up"


def wilson(right: int, count: int) -> tuple[float, float]:
    """The score interval of a share."""
    share, spread = right / count, _Z**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(share * (1 - share) / count + spread / (4 * count))
    return max(middle - half, 0.0), min(middle + half, 1.0)
