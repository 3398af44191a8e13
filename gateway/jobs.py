"""The jobs of one request: queued together, ended together."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import nullcontext
from dataclasses import dataclass
from uuid import uuid4

from msgspec.structs import replace

from dllm_stack.messages import Decoding, End, Job, Prompt
from dllm_stack.outcomes import Outcome
from gateway.answer import Rendering
from gateway.ledger import Ledger
from gateway.names import Names
from gateway.terms import Terms, TermsInBody
from gateway.ticket import Ticket

_SHORTEST_S = 0.001  # of a job whose time was up before the exchange has noticed


@dataclass(frozen=True)
class Call:
    """What a request asks for: one job a prompt.

    Attributes:
        seeded: if False, each job gets a seed of its own, with which every attempt writes the same.
    """

    pool: str
    prompts: list[Prompt]
    names: Names
    decoding: Decoding
    seeded: bool
    terms: TermsInBody
    stream: bool
    rendering: Rendering


class Jobs:
    """
    Attributes:
        tickets: in the order of the prompts; fewer than those until all are admitted.
    """

    def __init__(self, call: Call, terms: Terms, ledger: Ledger, first_id: str) -> None:
        self.tickets: list[Ticket] = []
        self._call = call
        self._terms = terms
        self._gateway_id = ledger.id
        self._feed = ledger.feed(call.pool)
        self._first_id = first_id
        self._closed: End | None = None
        self._wake = asyncio.Event()

    async def admit(self) -> None:
        """Queues a job for each prompt, until closed.

        Raises:
            RequestError: one was refused. `release` is due all the same.
        """
        # One after the other: were each to take a part of the room, there might be enough for none.
        async with self._feed.several if len(self._call.prompts) > 1 else nullcontext():
            await self._admit()

    async def _admit(self) -> None:
        call, terms = self._call, self._terms
        for prompt in call.prompts:
            if self._closed is not None:
                return
            left_s = terms.deadline - asyncio.get_running_loop().time()
            job = Job(
                id=uuid4().hex if self.tickets else self._first_id,
                pool=call.pool,
                gateway=self._gateway_id,
                prompt=prompt,
                decoding=call.decoding if call.seeded else _seeded(call.decoding),
                tenant=terms.tenant.name,
                weight=terms.tenant.weight,
                tier=terms.tier,
                timeout_s=max(left_s, _SHORTEST_S),
                session=terms.session,
            )
            ticket = Ticket(job, self._wake.set)
            self.tickets.append(ticket)
            await self._feed.admit(ticket)

    async def change(self) -> None:
        """Returns when a reply has come, or a job has ended, since the last call."""
        await self._wake.wait()
        self._wake.clear()

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
        return self._closed if len(self.tickets) < len(self._call.prompts) else None

    def completed(self) -> bool:
        return all(ticket.end is not None for ticket in self.tickets) and self.failure() is None

    def release(self) -> None:
        """Leaves nothing of the jobs behind, here or in the queue."""
        for ticket in self.tickets:
            self._feed.release(ticket)


def _seeded(decoding: Decoding) -> Decoding:
    sampling = decoding.sampling
    return replace(decoding, sampling=sampling and replace(sampling, seed=secrets.randbits(63)))
