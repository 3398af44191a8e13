"""Which models there are: the pools of the registry, remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from dllm_stack.messages import ModelCard
from dllm_stack.outcomes import SOON_S, ErrorCode, Problem, RequestError, unavailable
from dllm_stack.queue import Registry
from dllm_stack.redis import RedisError
from dllm_stack.tenants import Tenant
from gateway.metrics import OTHER


class Found(NamedTuple):
    """What the `model` of a request means.

    Attributes:
        mode: behind a colon in the name; None: the name alone.
        card: None while no worker of the pool has loaded it yet.
    """

    pool: str
    mode: str | None
    card: ModelCard | None


class Catalogue:
    """The models seen since this process started.

    What was seen once stays, so that a Redis that restarts empty does not turn models into unknown
    ones; whether a worker serves them is for the queue to say.
    """

    def __init__(self, registry: Registry, period_s: float, found: Callable[[str], None]) -> None:
        """`found` is told of each model, once."""
        self._registry = registry
        self._period_s = period_s
        self._found = found
        self._models: dict[str, ModelCard | None] = {}

    async def keep_fresh(self) -> None:
        await self.refresh()
        await asyncio.sleep(self._period_s)

    async def refresh(self) -> None:
        for name, card in (await self._registry.pools()).items():
            known = self._models.get(name)
            if name not in self._models:
                self._found(name)
            if card is not None and card.capabilities is None and known is not None:
                # Of a worker whose engine is loading; another one's, or its own before, has told already.
                card = replace(card, capabilities=known.capabilities)
            if card is not None or name not in self._models:
                self._models[name] = card

    async def find(self, name: str) -> Found:
        """A model by its name, or by its name with one of its modes: `name:mode`.

        Raises:
            RequestError: no such model, or no such mode of it, or the registry cannot be asked.
        """
        pool, colon, mode = name.partition(":")
        if pool not in self._models:
            await self._ask()
        message = f"The model {name[:100]!r} does not exist"
        if pool not in self._models:
            raise RequestError(Problem(ErrorCode.MODEL_NOT_FOUND, f"{message}.", param="model"))
        card = self._models[pool]
        if not colon:
            return Found(pool, None, card)
        # Until the model is loaded nobody knows its modes.
        if card is not None and (card.decoding is None or mode not in card.decoding.modes):
            modes = ", ".join(card.decoding.modes) if card.decoding else "none"
            message += f": the modes of {pool} are {modes}."
            raise RequestError(Problem(ErrorCode.MODEL_NOT_FOUND, message, param="model"))
        return Found(pool, mode, card)

    async def only(self, tenant: Tenant) -> str:
        """The model of a request that names none.

        Raises:
            RequestError: there is not exactly one that its tenant may use, or the registry cannot be asked.
        """
        known = await self.all()
        # Of one that is not the tenant's it is told so later, as if it had named it.
        models = [name for name in known if tenant.may_use(name)] or list(known)
        if not models:
            message = "No worker has announced a model yet."
            raise RequestError(Problem(ErrorCode.NO_WORKER, message, retry_after_s=SOON_S))
        if len(models) > 1:
            message = f"model is required: there are {len(models)} of them here."
            raise RequestError(Problem(ErrorCode.MISSING_FIELD, message, param="model"))
        return models[0]

    async def _ask(self) -> None:
        try:
            await self.refresh()
        except RedisError:
            raise RequestError(unavailable("The model registry cannot be reached.")) from None

    async def all(self) -> dict[str, ModelCard | None]:
        """
        Raises:
            RequestError: none is known, and the registry cannot be asked.
        """
        if not self._models:
            await self._ask()
        return self._models

    def label(self, name: object) -> str:
        """The `model` label of metrics: a pool, whatever the mode."""
        pool = name.partition(":")[0] if isinstance(name, str) else None
        return pool if pool in self._models else OTHER
