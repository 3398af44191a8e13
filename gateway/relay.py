"""From the replies of a request's jobs to bytes on its connection."""

from __future__ import annotations

from dllm_stack.messages import End
from dllm_stack.outcomes import Outcome
from gateway import sse
from gateway.answer import Answer, Rendering
from gateway.channel import Channel
from gateway.jobs import Jobs

COMPLETED = End(outcome=Outcome.COMPLETED)


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
            answer.add(arrival)
        answer.finish()
    document = rendering.document(answers)
    await channel.start(200, {"content-type": "application/json", "content-length": str(len(document))})
    await channel.write(document, more=False)
    return COMPLETED


async def stream(jobs: Jobs, answers: list[Answer], rendering: Rendering, channel: Channel) -> End:
    """Sends each block as an event at once. The response starts with the first of them, so that an
    error before it still has its own HTTP status.

    Returns:
        The request's end. If it is not COMPLETED, the stream is unfinished or not yet begun.
    """
    going = answers
    while True:
        await jobs.change()
        events = []
        for answer in going:
            for arrival in answer.ticket.take():
                answer.add(arrival)
                events.append(rendering.block(answer, arrival.block))
        if (failure := jobs.failure()) is not None:
            if channel.started:
                await channel.write(b"".join(events), more=True)
            return failure
        for answer in [answer for answer in going if answer.ticket.end is not None]:
            answer.finish()
            events.append(rendering.end(answer))
        going = [answer for answer in going if answer.end is None]
        if not going:
            events.append(rendering.close(answers))
        if data := b"".join(events):
            if not channel.started:
                await channel.start(200, sse.HEADERS)
            await channel.write(data, more=bool(going))
        if not going:
            return COMPLETED
