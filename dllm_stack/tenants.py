"""Who sends requests, and what each may do."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from dllm_stack.messages import Tier

NAME = r"[A-Za-z0-9._-]{1,64}"  # of a tenant
KEY_ID = r"dk-[0-9a-f]{16}"
DIGEST = r"[0-9a-f]{64}"

_TO_THE_END = r"$(?!\n)"  # where `$` alone would let a line break pass
# Of weights: tokens over them stay numbers that add up.
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6

_Limit = Annotated[int, Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Over all gateways and models together. None: no limit."""

    requests_per_minute: _Limit | None = None
    tokens_per_minute: _Limit | None = None  # of prompts and answers
    concurrency: _Limit | None = None  # requests open at once


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(pattern=f"^{NAME}{_TO_THE_END}")]
    # Its share of the tokens beside other tenants'; None: as the settings say.
    weight: Annotated[float, Meta(ge=LEAST_WEIGHT, le=MOST_WEIGHT)] | None = None
    tiers: Annotated[list[Tier], Meta(min_length=1)] | None = None  # it may ask for these; None: all
    models: Annotated[list[str], Meta(min_length=1)] | None = None  # pools it may use; None: all
    limits: Limits = Limits()

    def may_use(self, pool: str) -> bool:
        return self.models is None or pool in self.models


class Key(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An API key as it is kept: what was handed out cannot be made of it."""

    id: Annotated[str, Meta(pattern=f"^{KEY_ID}{_TO_THE_END}")]  # public, also the beginning of the secret
    digest: Annotated[str, Meta(pattern=f"^{DIGEST}{_TO_THE_END}")]  # SHA-256 of the secret
    tenant: Annotated[str, Meta(pattern=f"^{NAME}{_TO_THE_END}")]
    created: int  # Unix seconds
    expires: int | None = None  # Unix seconds
    admin: bool = False  # opens the admin API, and nothing else
    label: Annotated[str, Meta(max_length=200)] = ""
