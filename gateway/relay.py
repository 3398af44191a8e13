"""From the replies of a request's jobs to bytes on its connection."""

from __future__ import annotations

import time
from collections.abc import Iterator

from dllm_stack.messages import End
from dllm_stack.outcomes import Outcome
from gateway.answer import Answer, Rendering
from gateway.http import sse
from gateway.http.channel import Channel
from gateway.jobs import Jobs
from gateway.keep_alive import KeepAlive

COMPLETED = End(outcome=Outcome.COMPLETED)
_AT_ONCE_BYTES = 64 << 10  # a client that reads slowly is not to have more than this rendered for it
_WHOLE_BYTES = 1 << 20  # a document that is smaller is sent as one, and says how long it is


async def collect(jobs: Jobs, answers: list[Answer], rendering: Rendering, channel: Channel) -> End:
    """Waits for the whole answer and sends it as one JSON document.

    Returns:
        The request's end. If it is not COMPLETED, nothing was sent.
    """
    while not jobs.completed():
        if (failure := jobs.failure()) is not None:
            return failure
        await jobs.change()
    for answer in answers:
        for arrival in answer.ticket.take():
            answer.add(arrival, arrival.at)
        answer.finish()
    await _send_pieces(rendering.document(answers), channel)
    return COMPLETED


async def send(document: bytes, channel: Channel) -> None:
    await channel.start(200, {"content-type": "application/json", "content-length": str(len(document))})
    await channel.write(document, more=False)


async def _send_pieces(pieces: Iterator[bytes], channel: Channel) -> None:
    """As one if there is only one, or they are small; else each when the client has taken the one before."""
    document = bytearray(next(pieces))
    for piece in pieces:
        if len(document) >= (_AT_ONCE_BYTES if channel.started else _WHOLE_BYTES):
            if not channel.started:
                await channel.start(200, {"content-type": "application/json"})
            await channel.write(bytes(document), more=True)
            document.clear()
        document += piece
    if channel.started:
        await channel.write(bytes(document), more=False)
    else:
        await send(bytes(document), channel)


async def stream(
    jobs: Jobs, answers: list[Answer], rendering: Rendering, channel: Channel, keep_alive: KeepAlive
) -> End:
    """Sends each block as an event at once. The response starts with the first of them, or with the first
    comment, so that an error before it still has its own HTTP status.

    Returns:
        The request's end. If it is not COMPLETED, the stream is unfinished or not yet begun.
    """
    events = _Events(channel, keep_alive)
    going = answers
    while True:
        if not await keep_alive.wait(jobs.change()):
            await events.send(await keep_alive.comment())
            continue
        # Taken together: while something is sent, more may come.
        failure = jobs.failure()
        news = [(answer, answer.ticket.take(), answer.ticket.end is not None) for answer in going]
        if failure is not None and not channel.started:
            return failure
        for answer, arrivals, _ in news:
            for arrival in arrivals:
                answer.add(arrival, time.monotonic())
                await events.add(rendering.block(answer, arrival.block))
        if failure is not None:
            await events.flush()
            return failure
        for answer, _, ended in news:
            if ended:
                answer.finish()
                await events.add(rendering.end(answer))
        going = [answer for answer, _, ended in news if not ended]
        if not going:
            await events.add(rendering.close(answers))
            await events.flush(more=False)
            return COMPLETED
        await events.flush()


class _Events:
    """Sends those that come together in one piece, unless they are large."""

    def __init__(self, channel: Channel, keep_alive: KeepAlive) -> None:
        self._channel = channel
        self._keep_alive = keep_alive
        self._pending = bytearray()

    async def add(self, events: bytes) -> None:
        self._pending += events
        if len(self._pending) >= _AT_ONCE_BYTES:
            await self.flush()

    async def flush(self, *, more: bool = True) -> None:
        pending, self._pending = bytes(self._pending), bytearray()
        if pending or not more:
            await self.send(pending, more=more)

    async def send(self, data: bytes, *, more: bool = True) -> None:
        if not self._channel.started:
            await self._channel.start(200, sse.HEADERS)
        await self._channel.write(data, more=more)
        self._keep_alive.sent()
