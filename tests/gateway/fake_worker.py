"""A stand-in for router, worker and engine: real queue, scripted answers.

Real Redis, real scripts, real messages; only what the blocks say is made up. Tests of the whole stack
with a real engine are elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dllm_stack.capabilities import DRAWING
from dllm_stack.messages import (
    Block,
    Cancel,
    ChatPrompt,
    Claim,
    DecodingCard,
    Detokenize,
    End,
    Information,
    ModelCard,
    Place,
    Prompt,
    Question,
    TextPrompt,
    Tokenize,
    Took,
    Work,
    WorkerCard,
)
from dllm_stack.outcomes import Outcome, Problem
from dllm_stack.queue import START, Committal, PoolQueue, Registry
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import QueueSettings
from dllm_stack.work import NONE

PROMPT_TOKENS = 7
VOCAB_SIZE = 1000


class Run:
    """One claim, driven by the test or by `FakeWorker.answer`.

    Attributes:
        place: where the next block belongs; behind what earlier attempts have sent.
    """

    def __init__(self, worker: FakeWorker, claim: Claim) -> None:
        self.job = claim.job
        self.attempt = claim.attempt
        self.committed = claim.committed
        self.place = Place(len(claim.committed.token_ids), claim.committed.characters)
        self.cancelled = asyncio.Event()
        self._worker = worker

    def block(self, text: str, tokens: int = 1, work: Work = NONE, took: Took | None = None) -> Block:
        """Its token ids count those of the answer, from 0."""
        ids = list(range(self.place.tokens, self.place.tokens + tokens))
        return Block(text=text, token_ids=ids, prompt_tokens=PROMPT_TOKENS, work=work, took=took)

    async def commit(
        self, text: str, tokens: int = 1, work: Work = NONE, took: Took | None = None
    ) -> Committal:
        """Sends the next block."""
        block = self.block(text, tokens, work, took)
        committal = await self._send(self.place, block)
        self.place = Place(self.place.tokens + tokens, self.place.characters + len(text))
        return committal

    async def send(self, after: Place, text: str, token_ids: list[int]) -> Committal:
        """Sends a block that may belong anywhere."""
        return await self._send(after, Block(text=text, token_ids=token_ids, prompt_tokens=PROMPT_TOKENS))

    async def _send(self, after: Place, block: Block) -> Committal:
        worker = self._worker
        return await worker.queue.commit(worker.id, self.job.id, self.attempt, after, block)

    async def finish(
        self, reason: str = "stop", matched: str | int | None = None, *, block: Block | None = None
    ) -> bool:
        """Ends the answer, with its last block if there is one."""
        end = End(
            outcome=Outcome.COMPLETED,
            finish_reason=reason,
            matched_stop=matched,
            prompt_tokens=PROMPT_TOKENS,
            completion_tokens=self.place.tokens + (len(block.token_ids) if block else 0),
            cached_tokens=2,
        )
        return await self.end(end, block)

    async def fail(self, problem: Problem) -> bool:
        return await self.end(End(outcome=problem.outcome, problem=problem))

    async def give_back(self) -> str:
        """As a worker whose engine died does."""
        fate = await self._worker.queue.release(self._worker.id, self.job.id, self.attempt, counts=True)
        self._forget()
        return fate

    async def end(self, end: End, block: Block | None = None) -> bool:
        worker = self._worker
        ended = await worker.queue.finish(worker.id, self.job.id, self.attempt, self.place, end, block)
        self._forget()
        return ended

    def _forget(self) -> None:
        """To be called when the lease is over: a heartbeat gives back what is leased and not held."""
        if self._worker.runs.get(self.job.id) is self:
            del self._worker.runs[self.job.id]


class FakeWorker:
    """Dispatches and claims jobs of its pool.

    Args:
        autoregressive: its model is, and has these capabilities; None: it is a diffusion model.

    Attributes:
        blocks: what every run answers by itself; None leaves each run to the test, by `claimed`.
        runs: the runs under way, by job.
        questions: those it was asked.
        is_mute: it answers none of them.
    """

    def __init__(
        self,
        connections: Connections,
        settings: QueueSettings,
        pool: str = "tiny",
        *,
        name: str = "fake-worker",
        slots: int = 64,
        blocks: list[str] | None = None,
        decoding: DecodingCard | None = None,
        tools: str | None = None,
        autoregressive: list[str] | None = None,
    ) -> None:
        self.id = name
        self.pool = pool
        self.slots = slots
        self.blocks = blocks
        self.decoding = decoding
        self.tools = tools
        self.autoregressive = autoregressive
        self.runs: dict[str, Run] = {}
        self.questions: list[Question] = []
        self.is_mute = False
        self.queue = PoolQueue(connections, pool, settings)
        self._registry = Registry(connections)
        self._claimed: asyncio.Queue[Run] = asyncio.Queue()
        self._settings = settings
        self._last = START
        self._answers: set[asyncio.Task[None]] = set()

    @property
    def model(self) -> ModelCard:
        autoregressive = self.autoregressive is not None
        return ModelCard(
            name=self.pool,
            context_length=4096,
            block_size=1 if autoregressive else 32,
            algorithm=None if autoregressive else "LowConfidence",
            created=1_700_000_000,
            decoding=self.decoding,
            tools=self.tools,
            vocab_size=VOCAB_SIZE,
            capabilities=self.autoregressive if autoregressive else sorted(DRAWING) if self.decoding else [],
        )

    @asynccontextmanager
    async def working(self) -> AsyncIterator[FakeWorker]:
        await self._beat()
        tasks = [
            asyncio.create_task(self._forever(step)) for step in (self._dispatch, self._claim, self._pulse)
        ]
        try:
            yield self
        finally:
            for task in (*tasks, *self._answers):
                task.cancel()
            await asyncio.gather(*tasks, *self._answers, return_exceptions=True)

    async def set_slots(self, slots: int) -> None:
        self.slots = slots
        await self._beat()

    async def announce(self, pool: str) -> None:
        """Puts another pool into the registry."""
        await self._registry.publish(pool, None)

    async def claimed(self) -> Run:
        """The next run, to be driven by the test."""
        return await asyncio.wait_for(self._claimed.get(), 120)

    async def _forever(self, step: Any) -> None:
        while True:
            try:
                await step()
            except RedisError:
                await asyncio.sleep(0.05)

    async def _dispatch(self) -> None:
        await self.queue.wait()
        while await self.queue.dispatch():
            pass

    async def _pulse(self) -> None:
        await asyncio.sleep(self._settings.heartbeat_s)
        await self._beat()

    async def _beat(self) -> None:
        await self._registry.publish(self.pool, self.model)
        card = WorkerCard(id=self.id, pool=self.pool, slots=self.slots, state="ready", model=self.model)
        for job_id in await self.queue.worker_heartbeat(card, acked=self._last, held=list(self.runs)):
            self.runs.pop(job_id, None)

    async def _claim(self) -> None:
        try:
            self._last, commands = await self.queue.commands(self.id, self._last)
        except RedisError:
            self._last = START
            raise
        for command in commands:
            match command:
                case Cancel(job_id, attempt):
                    run = self.runs.get(job_id)
                    if run is not None and run.attempt == attempt:
                        await run.end(End(outcome=Outcome.CANCELLED))
                        run.cancelled.set()
                case Question():
                    await self._tell(command)
                case Claim(job):
                    known = self.runs.get(job.id)
                    if known is None or known.attempt != command.attempt:
                        self._begin(Run(self, command))

    async def _tell(self, question: Question) -> None:
        """Its tokens are characters; it has no chat template, and takes the last message."""
        self.questions.append(question)
        if self.is_mute:
            return
        match question.asks:
            case Tokenize(prompts):
                texts = [_last_text(prompt) for prompt in prompts]
                told = Information(token_ids=[list(map(ord, text)) for text in texts], context_length=4096)
            case Detokenize(token_ids):
                told = Information(
                    texts=["".join(map(_character, ids)) for ids in token_ids], context_length=4096
                )
        await self.queue.tell(self.id, question, told)

    def _begin(self, run: Run) -> None:
        self.runs[run.job.id] = run
        if self.blocks is None:
            self._claimed.put_nowait(run)
            return
        task = asyncio.create_task(self._answer(run, self.blocks))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, run: Run, blocks: list[str]) -> None:
        sent = run.place.characters  # by an earlier attempt
        for text in blocks:
            if rest := text[sent:]:
                await run.commit(rest, tokens=len(rest))
            sent = max(0, sent - len(text))
        await run.finish()


def _character(token_id: int) -> str:
    return chr(token_id) if token_id < 0xD800 else "\ufffd"


def _last_text(prompt: Prompt) -> str:
    match prompt:
        case ChatPrompt(messages):
            return str(messages[-1].get("content", ""))
        case TextPrompt(text):
            return text
    raise AssertionError("token ids need not be tokenized")
