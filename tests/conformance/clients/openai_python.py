"""Sends requests by openai-python: `openai_python.py <questions.json >seen.json`, under the newest of it.

Every case goes the way that a user's code goes: by the endpoint's own method, with what that method does not
name in `extra_body`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import Any

import openai
from openai import AsyncOpenAI, AsyncStream

AT_ONCE = 8
# These parameters of every method are the SDK's own.
_OWN = {"timeout", "extra_headers", "extra_query", "extra_body"}


async def send(client: AsyncOpenAI, question: dict[str, Any]) -> Any:
    body, path = question["body"], question["path"]
    create: Any = {
        "/v1/chat/completions": client.chat.completions.create,
        "/v1/completions": client.completions.create,
    }.get(path)
    if create is None or question["raw"]:
        url = f"{str(client.base_url).removesuffix('/v1/')}{path}"
        stream = body.get("stream") is True
        return await client.post(
            url, cast_to=object, body=body, stream=stream, stream_cls=AsyncStream[object] if stream else None
        )
    named = inspect.signature(create).parameters.keys() - _OWN
    return await create(
        **{name: value for name, value in body.items() if name in named},
        extra_body={name: value for name, value in body.items() if name not in named},
    )


def plain(answer: Any) -> Any:
    return answer.model_dump(mode="json", exclude_unset=True) if hasattr(answer, "model_dump") else answer


async def ask(client: AsyncOpenAI, question: dict[str, Any]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    try:
        answer = await send(client, question)
        if isinstance(answer, AsyncStream):
            seen["events"] = []
            async for event in answer:
                seen["events"].append(plain(event))
        else:
            seen["document"] = plain(answer)
    except openai.APIStatusError as error:
        names = ("code", "param", "type")
        seen["error"] = {"class": type(error).__name__, "status": error.status_code} | {
            name: getattr(error, name) for name in names
        }
    except openai.APIError as error:
        seen["error"] = {"class": type(error).__name__, "code": error.code, "param": error.param}
    except Exception as error:
        seen["error"] = {"class": type(error).__name__, "message": str(error)}
    return seen


async def main() -> None:
    asked = json.load(sys.stdin)
    turns = asyncio.Semaphore(AT_ONCE)
    async with AsyncOpenAI(base_url=asked["base_url"], api_key="none", max_retries=0, timeout=250) as client:

        async def one(question: dict[str, Any]) -> dict[str, Any]:
            async with turns:
                return await ask(client, question)

        seen = await asyncio.gather(*(one(question) for question in asked["questions"]))
    methods: dict[str, Any] = {
        "/v1/chat/completions": client.chat.completions.create,
        "/v1/completions": client.completions.create,
    }
    json.dump(
        {
            "version": openai.__version__,
            "seen": seen,
            "parameters": {
                path: sorted(inspect.signature(method).parameters.keys() - _OWN)
                for path, method in methods.items()
            },
        },
        sys.stdout,
    )


asyncio.run(main())
