"""Answers to requests whose body nobody has read."""

from __future__ import annotations

from starlette.types import Receive

from dllm_stack.outcomes import Problem
from gateway.http.body import discard_body
from gateway.http.channel import Channel
from gateway.http.errors import error_response


async def refuse_unread(problem: Problem, receive: Receive, channel: Channel) -> None:
    """Raises ClientGone."""
    response = error_response(problem)
    response.headers["connection"] = "close"  # nothing may follow such a body
    await channel.start(response.status_code, response.headers)
    await channel.write(bytes(response.body), more=True)
    await discard_body(receive)
    await channel.write(b"", more=False)
