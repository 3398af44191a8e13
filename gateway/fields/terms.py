"""On what terms a request is served: for whom, how urgently, until when, beside which others."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple, Self

from msgspec import UNSET, UnsetType
from pydantic import Field
from starlette.datastructures import Headers

from dllm_stack.messages import Tier
from dllm_stack.tenants import NAME, Tenant
from gateway.fields.validation import Honoured, invalid

MAX_SESSION_CHARACTERS = 256
DEFAULT_TENANT = "default"

_Session = Annotated[str, Field(min_length=1, max_length=MAX_SESSION_CHARACTERS)]


class _Header(NamedTuple):
    pattern: str
    must: str  # ends the sentence that refuses another value
    description: str


HEADERS: dict[str, _Header] = {
    "X-Request-Timeout": _Header(
        r"(?=.*[1-9])\d{1,9}(\.\d{1,9})?",
        "must be a number of seconds greater than 0, as in 2.5",
        "As `timeout` in the body.",
    ),
    "X-Tenant-ID": _Header(
        NAME,
        "must be 1 to 64 letters, digits, dots, underscores and hyphens",
        "Whose request it is.",
    ),
    "X-Session-ID": _Header(
        rf"[\x20-\x7e]{{1,{MAX_SESSION_CHARACTERS}}}",
        f"must be 1 to {MAX_SESSION_CHARACTERS} printable ASCII characters",
        "As `prompt_cache_key` in the body, and before it.",
    ),
}


class TermsInBody(Honoured):
    """The fields of a body that say so; every endpoint takes them."""

    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None  # seconds
    prompt_cache_key: _Session | None = None

    @property
    def tier(self) -> Tier | None:
        """None: the tenant's usual one."""
        return None if self.service_tier in (None, "auto") else Tier(self.service_tier)

    @property
    def tier_told(self) -> Tier | UnsetType:
        """`service_tier` of the answer, which has one if the request has."""
        return self.tier or UNSET


class TermsInHeaders(NamedTuple):
    timeout_s: float | None
    session: str | None

    @classmethod
    def read(cls, headers: Headers) -> Self:
        """
        Raises:
            RequestError: naming the header that is wrong.
        """
        timeout = _value(headers, "X-Request-Timeout")
        return cls(
            timeout_s=None if timeout is None else float(timeout),
            session=_value(headers, "X-Session-ID"),
        )


class Terms(NamedTuple):
    """Of one request; see `messages.Job`."""

    tenant: Tenant
    tier: Tier
    session: str | None
    deadline: float  # monotonic seconds, as the loop counts too

    @classmethod
    def agreed(
        cls, tenant: Tenant, tier: Tier, headers: TermsInHeaders, body: TermsInBody, deadline: float
    ) -> Self:
        return cls(tenant, tier, headers.session or body.prompt_cache_key, deadline)


def usual_tier(tenant: Tenant) -> Tier:
    """Of a request that leaves it open."""
    if tenant.tiers is None or Tier.DEFAULT in tenant.tiers:
        return Tier.DEFAULT
    return min(tenant.tiers, key=list(Tier).index)


def settle_auto(body: dict[str, Any], tenant: Tenant) -> None:
    """Lets a body ask for the tier that `auto` means, so that its answer tells it."""
    if body.get("service_tier") == "auto":
        body["service_tier"] = usual_tier(tenant).value


def tenant_named(headers: Headers) -> str | None:
    """
    Raises:
        RequestError: the header is wrong.
    """
    return _value(headers, "X-Tenant-ID")


def _value(headers: Headers, name: str) -> str | None:
    values = headers.getlist(name)
    if len(values) > 1:
        raise invalid(name, "must be given once")
    for value in values:
        if not re.fullmatch(HEADERS[name].pattern, value):
            raise invalid(name, HEADERS[name].must)
    return values[0] if values else None


def header_parameters() -> list[dict[str, Any]]:
    """The headers, as OpenAPI describes parameters."""
    return [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": header.description,
            "schema": {"type": "string", "pattern": f"^{header.pattern}$"},
        }
        for name, header in HEADERS.items()
    ]
