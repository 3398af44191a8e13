"""Calls: served by jobs."""

from __future__ import annotations

from msgspec.structs import replace

from dllm_stack.messages import End
from dllm_stack.outcomes import RequestError
from gateway import charge, relay
from gateway.answer import Answer
from gateway.charge import Charge
from gateway.fields.terms import Terms
from gateway.gateway import Gateway
from gateway.http.channel import Channel
from gateway.jobs import Call, Jobs
from gateway.keep_alive import KeepAlive
from gateway.pace import Request
from gateway.record import Record


class Answering:
    """One call, from its admission to the last byte of its answer."""

    def __init__(self, call: Call, terms: Terms, gateway: Gateway, record: Record) -> None:
        self._call = call
        self._tenant = terms.tenant
        self._gateway = gateway
        self._record = record
        self._jobs = Jobs(call, terms, gateway.ledger, record.id, record.span.trace)
        record.tickets = self._jobs.tickets
        record.begins(call, terms)

    @property
    def begun(self) -> bool:
        """A worker has had a part of it."""
        return any(ticket.attempt for ticket in self._jobs.tickets)

    def close(self, end: End) -> None:
        self._jobs.close(end)

    async def run(self, channel: Channel) -> End:
        """
        Returns:
            The end. One that is not COMPLETED is still to be told to the client.

        Raises:
            RequestError: it was refused.
            ClientGone
        """
        toll = self._charge(channel)
        try:
            await self._admit(toll)
            end = await self._relay(channel)
        except RequestError as error:
            raise RequestError(self._call.names.put_into(error.problem)) from None
        finally:
            self._jobs.release()
            await toll.settle()
        return end if end.problem is None else replace(end, problem=self._call.names.put_into(end.problem))

    async def _admit(self, toll: Charge) -> None:
        record = self._record
        admission = self._gateway.tracer.start("admission", record.span.trace, began=record.arrived)
        try:
            await toll.reserve()
            await self._jobs.admit()
        finally:
            admission.end()

    def _charge(self, channel: Channel) -> Charge:
        tokens = 0, 0
        if self._tenant.limits.tokens_per_minute is not None:
            prompts = (prompt for prompt, _ in self._call.tasks())
            tokens = charge.asked(prompts, self._call.decoding.max_tokens)
        tickets = self._jobs.tickets
        limiter, request_id = self._gateway.limiter, self._record.id
        return Charge(limiter, self._tenant, request_id, channel, tokens, lambda: charge.used(tickets))

    async def _relay(self, channel: Channel) -> End:
        call, jobs = self._call, self._jobs
        answers = self._record.answers = self._answers()
        if not call.stream:
            return await relay.collect(jobs, answers, call.rendering, channel)
        period_s = self._gateway.settings.gateway.keep_alive_s
        keep_alive = KeepAlive(period_s, jobs.position if call.tells_position else None)
        return await relay.stream(jobs, answers, call.rendering, channel, keep_alive)

    def _answers(self) -> list[Answer]:
        call, record, gateway = self._call, self._record, self._gateway
        series = gateway.metrics.pace(record.kind)
        request = Request(series, record.arrived, gateway.tracer, record.span.trace)
        keeps_logprobs = not call.stream or call.rendering.repeats
        answers = []
        for number, ticket in enumerate(self._jobs.tickets):
            choices = call.choices_of(number)
            is_first = choices[0] % call.n == 0
            answer = Answer(choices, ticket, request, is_first=is_first, keeps_logprobs=keeps_logprobs)
            answers.append(answer)
        return answers
