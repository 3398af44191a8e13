"""The jobs of one request: queued together, ended together."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from uuid import uuid4

from msgspec.structs import replace

from dllm_stack.messages import Decoding, End, Job, Prompt, Trace
from dllm_stack.outcomes import Outcome
from dllm_stack.queue import Position
from gateway.answer import Rendering
from gateway.fields.names import Names
from gateway.fields.terms import Terms, TermsInBody
from gateway.ledger import Ledger
from gateway.ticket import Ticket

_SHORTEST_S = 0.001  # of a job whose time was up before the exchange has noticed


@dataclass(frozen=True)
class Call:
    """What a request asks for.

    Attributes:
        seeded: if False, each job gets a seed of its own, with which every attempt writes the same.
        n: choices for each prompt. Their indices are those of the prompts' order.
        tells_position: its comments while it waits say where in the queue it is.
    """

    pool: str
    prompts: list[Prompt]
    names: Names
    decoding: Decoding
    seeded: bool
    terms: TermsInBody
    stream: bool
    rendering: Rendering
    n: int = 1
    tells_position: bool = False

    @property
    def jobs(self) -> int:
        return len(self.prompts) * (self.n if self._draws else 1)

    @property
    def mode(self) -> str:
        """As metrics call it."""
        return self.decoding.mode or ("default" if self.decoding.decision is None else "custom")

    @property
    def _draws(self) -> bool:
        """If not, the choices for a prompt are the same answer, and one job makes it."""
        sampling = self.decoding.sampling
        return bool(sampling and sampling.temperature > 0)

    def tasks(self) -> Iterator[tuple[Prompt, Decoding]]:
        """What each job is to do."""
        for prompt in self.prompts:
            for choice in range(self.n if self._draws else 1):
                yield prompt, self._decoding_of(choice)

    def _decoding_of(self, choice: int) -> Decoding:
        if not self.seeded:
            return _seeded(self.decoding, secrets.randbits(63))
        if choice == 0:
            return self.decoding
        assert self.decoding.sampling is not None  # as it draws
        return _seeded(self.decoding, _derived(self.decoding.sampling.seed, choice))

    def choices_of(self, job: int) -> range:
        """The indices of the choices that a job makes."""
        return range(job, job + 1) if self._draws else range(job * self.n, (job + 1) * self.n)


class Jobs:
    """
    Attributes:
        tickets: in the order of the call's tasks; fewer than those until all are admitted.
    """

    def __init__(
        self, call: Call, terms: Terms, ledger: Ledger, first_id: str, trace: Trace | None = None
    ) -> None:
        self.tickets: list[Ticket] = []
        self._call = call
        self._terms = terms
        self._gateway_id = ledger.id
        self._feed = ledger.feed(call.pool)
        self._first_id = first_id
        self._trace = trace
        self._closed: End | None = None
        self._wake = asyncio.Event()

    async def admit(self) -> None:
        """Queues a job for each task, until closed.

        Raises:
            RequestError: one was refused. `release` is due all the same.
        """
        # One after the other: were each to take a part of the room, there might be enough for none.
        async with self._feed.several if self._call.jobs > 1 else nullcontext():
            await self._admit()

    async def _admit(self) -> None:
        call, terms = self._call, self._terms
        for prompt, decoding in call.tasks():
            if self._closed is not None:
                return
            left_s = terms.deadline - time.monotonic()
            job = Job(
                id=uuid4().hex if self.tickets else self._first_id,
                pool=call.pool,
                gateway=self._gateway_id,
                prompt=prompt,
                decoding=decoding,
                tenant=terms.tenant.name,
                weight=terms.tenant.weight,
                tier=terms.tier,
                timeout_s=max(left_s, _SHORTEST_S),
                session=terms.session,
                streamed=call.stream,
                request=self._first_id if self.tickets else "",
                trace=self._trace,
            )
            ticket = Ticket(job, self._wake.set)
            self.tickets.append(ticket)
            await self._feed.admit(ticket)

    async def change(self) -> None:
        """Returns when a reply has come, or a job has ended, since the last call."""
        await self._wake.wait()
        self._wake.clear()

    async def position(self) -> Position | None:
        """Where in the queue the first job waits that nothing has come of; None: it runs, or Redis does not
        say."""
        for ticket in self.tickets:
            if ticket.end is None and not ticket.attempt:
                return await self._feed.position(ticket.job.id)
        return None

    def close(self, end: End) -> None:
        """Ends all jobs that are still open."""
        self._closed = self._closed or end
        for ticket in self.tickets:
            ticket.close(end)
        self._wake.set()

    def failure(self) -> End | None:
        """The end of a job that did not complete, if there is one: it is the request's end."""
        for ticket in self.tickets:
            if ticket.end is not None and ticket.end.outcome is not Outcome.COMPLETED:
                return ticket.end
        return self._closed if len(self.tickets) < self._call.jobs else None

    def completed(self) -> bool:
        return all(ticket.end is not None for ticket in self.tickets) and self.failure() is None

    def release(self) -> None:
        """Leaves nothing of the jobs behind, here or in the queue."""
        for ticket in self.tickets:
            self._feed.release(ticket)


def _seeded(decoding: Decoding, seed: int) -> Decoding:
    sampling = decoding.sampling
    return replace(decoding, sampling=sampling and replace(sampling, seed=seed))


def _derived(seed: int, choice: int) -> int:
    digest = blake2b(f"{seed} {choice}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
