"""One running /generate request of an engine, and its events."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Protocol

import msgspec

from dllm_stack.messages import Work
from worker.engine.http import Answer, HttpError
from worker.engine.wire import Event, Finish, Logprobs, StreamError

_STOP_S = 1.0  # an engine that works ends an aborted request within one round of its scheduler
_ERROR_S, _ERROR_BYTES = 10.0, 64 << 10  # limits of reading an error
_ERROR_CHARACTERS = 2000  # of it are passed on


class EngineFault(Exception):
    """The engine did not do what it should: it is gone, it broke off, or it answered with an error."""


class EngineRefusal(Exception):
    """The engine says that the request itself is wrong."""


class Progress(msgspec.Struct, frozen=True):
    """One event of a generation."""

    token_ids: list[int]  # those that are new
    cached_tokens: int  # tokens of the prompt found in the prefix cache
    finish: Finish | None
    # For each of the new tokens: a block's work stands on its first one. Empty where the engine does not say.
    work: list[Work] = []
    logprobs: list[Logprobs] = []  # for each of the new tokens, where the request asks for them

    def blocks(self) -> Iterator[Progress]:
        """Block by block, where SGLang has put several into one event because it was in a hurry."""
        begins = [place for place, work in enumerate(self.work) if work.forwards and place]
        if not begins:
            yield self
            return
        ends = [*begins, len(self.token_ids)]
        for begin, end in zip([0, *begins], ends, strict=True):
            yield Progress(
                self.token_ids[begin:end],
                self.cached_tokens,
                self.finish if end == ends[-1] else None,
                self.work[begin:end],
                self.logprobs[begin:end],
            )

    def followed_by(self, later: Progress) -> Progress:
        """Both events as one."""
        return Progress(
            self.token_ids + later.token_ids,
            later.cached_tokens,
            later.finish,
            self.work + later.work,
            self.logprobs + later.logprobs,
        )


class Client(Protocol):
    """The engine that a generation runs on."""

    def saw_life(self) -> None: ...
    async def abort(self, rid: str) -> None: ...


class Generation:
    """One running /generate request.

    Args:
        deltas: events carry what is new instead of all so far.
        merge: events that have come already are read as one. An autoregressive engine sends one a token:
            whoever is slower than that gets several at a time.
    """

    def __init__(self, client: Client, rid: str, answer: Answer, *, deltas: bool, merge: bool) -> None:
        self._deltas = deltas
        self._merge = merge
        self._client = client
        self._rid = rid
        self._answer = answer
        self._tokens = 0  # of the answer, so far
        self._failure: EngineFault | EngineRefusal | None = None  # has come, and is still to be raised
        self._over = False
        self._stopped = False  # all that could be done

    async def next(self, within_s: float = math.inf) -> Progress:
        """The next event; may be awaited again after it was cancelled.

        Raises:
            TimeoutError: the engine was silent for so long.
            EngineFault: the stream ended or broke before the answer was finished.
            EngineRefusal
        """
        progress = self._read(await self._next_event(within_s))
        while self._merge and progress.finish is None and (event := self._answer.came()) is not None:
            try:
                progress = progress.followed_by(self._read(event))
            except (EngineFault, EngineRefusal) as error:
                self._failure = error  # after what came before it
                break
        return progress

    def _read(self, encoded: bytes) -> Progress:
        event = _decode_event(encoded)
        if event.error is not None:
            self._over = True
            raise _raised(event.error)
        if event.meta_info is None:
            raise EngineFault("The engine sent an event without meta_info.")
        meta, finish = event.meta_info, event.meta_info.finish_reason
        self._over = finish is not None
        if finish is not None and finish.status_code is not None:
            # Such an event comes with made-up tokens.
            raise _raised(StreamError(finish.message or "no reason given", finish.status_code))
        begin = 0 if self._deltas else self._tokens
        new, work = event.output_ids[begin:], meta.work(begin, len(event.output_ids))
        self._tokens += len(new)
        # Before 0.5.23 SGLang takes a block off this count at every denoise step: it ends far below zero.
        cached = max(0, meta.cached_tokens)
        return Progress(new, cached, finish, work, meta.logprobs(begin, len(event.output_ids)))

    async def stop(self) -> bool:
        """Ends the request, in the engine too.

        Returns:
            Whether the engine has confirmed that it runs no longer. If not, closing the connection was
            all that could be done.
        """
        try:
            if not self._over and not self._stopped:
                self._stopped = True
                async with asyncio.timeout(_STOP_S):
                    await self._client.abort(self._rid)
                    while not self._over:
                        await self.next()
        except (EngineFault, EngineRefusal, TimeoutError):
            pass
        finally:
            if self._over:
                self._answer.leave()  # what is left says nothing more
            else:
                self._answer.close()
        return self._over

    async def _next_event(self, within_s: float) -> bytes:
        if self._failure is not None:
            raise self._failure
        try:
            event = await self._answer.next(within_s)
        except HttpError as error:
            raise EngineFault(f"The engine's stream broke: {error}") from error
        if event is None:
            raise EngineFault("The engine's stream ended before the answer did.")
        self._client.saw_life()
        return event


# SGLang's scheduler ends a request with this, as its own failure, when a grammar lets no token follow.
_NO_TOKEN_FOLLOWS = "Grammar accept_token failed"


def _raised(error: StreamError) -> EngineFault | EngineRefusal:
    if _NO_TOKEN_FOLLOWS in error.message:
        return EngineRefusal("No token of this model can go on with the answer in the form asked for.")
    if error.code is not None and 400 <= error.code < 500:
        return EngineRefusal(error.message)
    return EngineFault(f"The engine failed: {error.message}")


_event_decoder = msgspec.json.Decoder(Event)


def _decode_event(event: bytes) -> Event:
    try:
        return _event_decoder.decode(event)
    except msgspec.MsgspecError as error:
        raise EngineFault(f"The engine sent an event that cannot be read: {error}") from error


async def error_of(answer: Answer) -> EngineFault | EngineRefusal:
    """What an answer other than 200 says, whichever of SGLang's shapes it has."""
    try:
        async with asyncio.timeout(_ERROR_S):
            body = await answer.body(_ERROR_BYTES)
    except (HttpError, TimeoutError):
        body = b""
    text = body.decode(errors="replace")[:_ERROR_CHARACTERS].strip()
    return _raised(StreamError(text or f"no reason given, HTTP status {answer.status}", answer.status))
