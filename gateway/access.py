"""Who may use this gateway, and as which tenant."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import NoReturn

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from dllm_stack.keys import KeyFileError, KeyRing, KeyStore, Refusal
from dllm_stack.keys.secret import MOST_CHARACTERS
from dllm_stack.keys.sources import FileSource, RedisSource
from dllm_stack.keys.store import LEASE_S
from dllm_stack.messages import Tier
from dllm_stack.outcomes import ErrorCode, Problem, RequestError, unavailable
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import AccessSettings
from dllm_stack.tenants import Key, Tenant
from gateway.fields.terms import DEFAULT_TENANT, tenant_named, usual_tier
from gateway.http.body import LINGER_S, ClientGone
from gateway.http.channel import Channel
from gateway.http.refusal import refuse_unread
from gateway.inquiry import Inquiry
from gateway.jobs import Call
from gateway.metrics import Metrics
from gateway.playground import routes as playground

OPEN = frozenset({"/healthz", "/readyz", "/metrics"}) | playground.PATHS  # what answers without a key
GIVE_UP_S = LINGER_S + 5.0  # a client that does not even read its refusal

_BEARER = re.compile(rf"Bearer +([\x21-\x7e]{{1,{MOST_CHARACTERS}}})", re.IGNORECASE)
_TENANT = "dllm_stack.tenant"  # where a scope has it
_ANYBODY = Tenant(name=DEFAULT_TENANT)


class Access:
    """
    Attributes:
        ring: None when no keys are needed.
    """

    def __init__(
        self, settings: AccessSettings, connections: Connections, gateway_id: str, metrics: Metrics
    ) -> None:
        self.ring: KeyRing | None = None
        self._metrics = metrics
        if settings.keys == "redis":
            self.ring = KeyRing(RedisSource(KeyStore(connections), gateway_id))
        elif settings.file is not None:
            self.ring = KeyRing(FileSource(settings.file))
        if self.ring is not None:
            metrics.watch(self.ring)

    @property
    def ready(self) -> bool:
        return self.ring is None or self.ring.age_s < LEASE_S

    async def tenant(self, headers: Headers) -> Tenant:
        """Whose request has these headers. To be asked anew where time has passed since.

        Raises:
            RequestError: nobody's: it has no key that opens this API, or names another tenant than the key's.
        """
        if self.ring is None:
            return Tenant(name=tenant_named(headers) or DEFAULT_TENANT)
        key = await self._key(self.ring, headers)
        if key.admin:
            self._forbid("admin_key", "This key opens the admin API only.")
        tenant = self.ring.tenant(key.tenant)
        if tenant is None:  # deleted since
            self._unauthorized(Refusal.REVOKED)
        named = tenant_named(headers)
        if named is not None and named != tenant.name:
            self._forbid("tenant", "X-Tenant-ID names another tenant than the key's.", "X-Tenant-ID")
        return tenant

    async def admin(self, headers: Headers) -> Key:
        """The key of a request to the admin API.

        Raises:
            RequestError: it has none that opens it.
        """
        if self.ring is None:
            self._unauthorized("off")
        key = await self._key(self.ring, headers)
        if not key.admin:
            self._forbid("no_admin_key", "This key does not open the admin API.")
        return key

    def permit(self, tenant: Tenant, call: Call | Inquiry) -> Tier:
        """The priority class of a call.

        Raises:
            RequestError: the tenant may not use this model, or ask for this class.
        """
        self.permit_model(tenant, call.pool)
        tier = call.terms.tier or usual_tier(tenant)
        if tenant.tiers is not None and tier not in tenant.tiers:
            may = ", ".join(tenant.tiers)
            message = f"This key may not ask for service_tier {tier.value!r}, but for: {may}."
            self._forbid("tier", message, "service_tier")
        return tier

    def permit_model(self, tenant: Tenant, pool: str) -> None:
        """
        Raises:
            RequestError: the tenant may not use it.
        """
        if not tenant.may_use(pool):
            self._forbid("model", f"This key may not use the model {pool!r}.", "model")

    async def _key(self, ring: KeyRing, headers: Headers) -> Key:
        given = headers.getlist("authorization")
        if not given:
            self._unauthorized("missing", "This needs an API key, as in `Authorization: Bearer dk-...`.")
        match = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        if match is None:
            self._unauthorized("malformed", "Authorization must be `Bearer`, a space and an API key, once.")
        try:
            fresh = await ring.freshen()
        except (RedisError, KeyFileError):
            self._unavailable()
        key = ring.find(match[1])
        if key is Refusal.UNKNOWN and not fresh:  # it may be new
            self._unavailable()
        if isinstance(key, Refusal):
            self._unauthorized(key)
        return key

    def _unavailable(self) -> NoReturn:
        self._metrics.refused_access.labels("unavailable").inc()
        raise RequestError(unavailable("API keys cannot be checked at present.")) from None

    def _unauthorized(self, reason: str, message: str = "This API key is not valid.") -> NoReturn:
        self._metrics.refused_access.labels(reason).inc()
        raise RequestError(Problem(ErrorCode.INVALID_API_KEY, message))

    def _forbid(self, reason: str, message: str, param: str | None = None) -> NoReturn:
        self._metrics.refused_access.labels(reason).inc()
        raise RequestError(Problem(ErrorCode.PERMISSION_DENIED, message, param))


def tenant_of(request: Request) -> Tenant:
    """Of a request that has come past the guard; one without limits when no keys are needed."""
    tenant: Tenant = request.scope.get(_TENANT, _ANYBODY)
    return tenant


class Guard:
    """Stands before every route, those that do not exist included: without a key only OPEN answers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._access.ring is not None and scope["path"] not in OPEN:
            try:
                scope[_TENANT] = await self._access.tenant(Headers(scope=scope))
            except RequestError as error:
                give_up_at = asyncio.get_running_loop().time() + GIVE_UP_S
                channel = Channel(send, give_up_at)
                with suppress(ClientGone):
                    await refuse_unread(error.problem, receive, channel)
                return
        await self._app(scope, receive, send)
