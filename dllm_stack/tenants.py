"""Who sends requests, and what each may do."""

from __future__ import annotations

import msgspec

from dllm_stack.messages import Tier


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Over all gateways and models together. None: no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None  # of prompts and answers
    concurrency: int | None = None  # requests open at once


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    name: str  # 1 to 64 letters, digits, dots, underscores and hyphens
    weight: float | None = None  # its share of the tokens beside other tenants'; None: as the settings say
    tiers: list[Tier] | None = None  # priority classes it may ask for; None: all
    models: list[str] | None = None  # pools it may use; None: all
    limits: Limits = Limits()


class Key(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An API key as it is kept: what was handed out cannot be made of it."""

    id: str  # public, also the beginning of the secret; names the key in lists and logs
    digest: str  # SHA-256 of the secret, in hexadecimal
    tenant: str
    created: int  # Unix seconds
    expires: int | None = None  # Unix seconds
    admin: bool = False  # opens the admin API, and nothing else
    label: str = ""
