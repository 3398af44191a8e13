"""A tenant's limits, each with its waits, its loss and its repetitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dllm_stack.background import forever
from dllm_stack.limits import Limiter, LimitError, Reservation
from dllm_stack.limits import limiter as limiter_module
from dllm_stack.limits.headers import duration, retry_headers
from dllm_stack.limits.script import BUCKET_MS, WINDOW_MS, prefix
from dllm_stack.outcomes import ErrorCode, RequestError
from dllm_stack.redis import Connections, RedisError
from dllm_stack.settings import LimitSettings
from dllm_stack.tenants import Tenant
from tests.limits.kit import LEASE_S, NAME, Clock, TimedLimiter, tenant


@pytest.fixture
async def clock(connections: Connections) -> Clock:
    clock = Clock(connections)
    await clock.set()
    return clock


@pytest.fixture
def limiter(connections: Connections, clock: Clock) -> TimedLimiter:
    return TimedLimiter(connections, clock)


async def refused(limiter: Limiter, tenant: Tenant, id: str, tokens: int = 1, guess: int = 0) -> LimitError:
    with pytest.raises(LimitError) as refusal:
        await limiter.reserve(tenant, id, tokens, guess)
    assert refusal.value.problem.code is ErrorCode.RATE_LIMIT_EXCEEDED
    return refusal.value


def wait_ms(error: LimitError) -> int:
    return int(error.headers["retry-after-ms"])


async def test_without_limits_nothing_is_kept(limiter: TimedLimiter, connections: Connections) -> None:
    reservation = await limiter.reserve(tenant(), "a", 1000)
    await reservation.settle(10)
    assert reservation.headers == {}
    assert [key async for key in connections.commands.scan_iter("dllm:*state")] == []


async def test_what_the_headers_say(limiter: TimedLimiter, clock: Clock) -> None:
    acme = tenant(requests=10, tokens=1000)
    assert (await limiter.reserve(acme, "a", 100, 50)).headers == {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "9",
        "x-ratelimit-reset-requests": "1m0.02s",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "850",
        "x-ratelimit-reset-tokens": "1m0.02s",
    }
    await clock.advance(55_000)
    assert (await limiter.reserve(tenant(requests=10), "b", 100)).headers.keys() == {
        f"x-ratelimit-{what}-requests" for what in ("limit", "remaining", "reset")
    }


@pytest.mark.parametrize(("limits", "per_request"), [({"requests": 3}, 1), ({"tokens": 30}, 10)])
async def test_the_wait_is_exact(
    limiter: TimedLimiter, clock: Clock, limits: dict[str, int], per_request: int
) -> None:
    acme = tenant(**limits)
    for number in range(3):
        await limiter.reserve(acme, f"{number}", per_request)
        await clock.advance(7_000)
    error = await refused(limiter, acme, "early", per_request)
    assert wait_ms(error) == WINDOW_MS + BUCKET_MS - 21_000
    assert error.headers["retry-after"] == "40"
    assert error.problem.retry_after_s == 40
    await clock.advance(wait_ms(error) - 1)
    assert wait_ms(await refused(limiter, acme, "a moment early", per_request)) == 1
    await clock.advance(1)
    await limiter.reserve(acme, "in time", per_request)
    assert wait_ms(await refused(limiter, acme, "one too many", per_request)) == 7_000


@pytest.mark.parametrize("limits", [{"requests": 200}, {"tokens": 10_000}])
async def test_a_limit_is_used_up_and_never_exceeded(
    connections: Connections, clock: Clock, limits: dict[str, int]
) -> None:
    """Two gateways, and a client that comes back when it is told to; answers are shorter than reserved."""
    gateways = [TimedLimiter(connections, clock) for _ in range(2)]
    acme, tokens = tenant(**limits), 50
    began = clock.ms
    charged: list[int] = []
    open: list[Reservation] = []
    while clock.ms < began + 150_000:
        try:
            taken = await gateways[len(charged) % 2].reserve(acme, f"{len(charged)}", tokens + 20)
        except LimitError as error:
            await clock.advance(wait_ms(error))
            continue
        charged.append(clock.ms)
        open.append(taken)
        if len(open) > 3:
            await open.pop(0).settle(tokens)
        await clock.advance(60)
    limit = limits.get("requests") or limits["tokens"] // tokens
    windows = range(began + WINDOW_MS, clock.ms, 250)
    used = [sum(end - WINDOW_MS < at <= end for at in charged) for end in windows]
    assert max(used) <= limit
    assert min(used) >= 0.98 * limit


async def test_what_was_not_used_is_given_back(limiter: TimedLimiter) -> None:
    acme = tenant(tokens=100)
    first = await limiter.reserve(acme, "first", 100)
    await refused(limiter, acme, "no room", 1)
    await first.settle(30)
    second = await limiter.reserve(acme, "second", 70)
    assert second.headers["x-ratelimit-remaining-tokens"] == "0"


async def test_what_was_used_besides_is_paid_in_full_before_anything_else(
    limiter: TimedLimiter, clock: Clock
) -> None:
    acme = tenant(tokens=100)
    await (await limiter.reserve(acme, "a", 10)).settle(250)
    for minute in range(2):  # of 250 tokens each pays 100; the third has room for more
        error = await refused(limiter, acme, f"{minute}", 50)
        assert wait_ms(error) == 60_000  # OpenAI's SDKs wait no longer
        await clock.advance(WINDOW_MS + BUCKET_MS)
    assert (await limiter.reserve(acme, "b", 50)).headers["x-ratelimit-remaining-tokens"] == "0"


async def test_a_request_larger_than_the_limit_is_refused_for_good(limiter: TimedLimiter) -> None:
    error = await refused(limiter, tenant(tokens=100), "a", 101)
    assert error.problem.retry_after_s is None
    assert error.headers["x-should-retry"] == "false"
    assert "retry-after" not in error.headers


async def test_a_guess_is_no_reason_to_refuse(limiter: TimedLimiter) -> None:
    acme = tenant(tokens=100)
    reservation = await limiter.reserve(acme, "a", 60, 512)
    assert reservation.headers["x-ratelimit-remaining-tokens"] == "0"
    await reservation.settle(70)
    assert (await limiter.reserve(acme, "b", 20)).headers["x-ratelimit-remaining-tokens"] == "10"


async def test_requests_open_at_once(connections: Connections, clock: Clock) -> None:
    gateways = [TimedLimiter(connections, clock) for _ in range(2)]
    acme = tenant(concurrency=2)
    first = await gateways[0].reserve(acme, "first", 1)
    await gateways[1].reserve(acme, "second", 1)
    assert wait_ms(await refused(gateways[0], acme, "third")) == 1000
    await first.settle(1)
    await gateways[1].reserve(acme, "third", 1)


async def test_requests_of_a_dead_gateway_are_open_no_more(connections: Connections, clock: Clock) -> None:
    alive, dead = (TimedLimiter(connections, clock) for _ in range(2))
    acme = tenant(concurrency=2)
    await alive.reserve(acme, "mine", 1)
    await dead.reserve(acme, "its", 1)
    for _ in range(5):
        await clock.advance(round(LEASE_S * 1000) // 2)
        await alive.beat()
    await alive.reserve(acme, "more", 1)
    await refused(alive, acme, "mine is open still")


async def test_a_restarted_redis_knows_nothing_for_a_minute(limiter: TimedLimiter, clock: Clock) -> None:
    acme = tenant(requests=2)
    for id in ("a", "b"):
        await limiter.reserve(acme, id, 1)
    await limiter._scripts._sender._connections.commands.flushall()
    await clock.restart()
    error = await refused(limiter, acme, "c")
    assert "lost" in error.problem.message
    assert wait_ms(error) == WINDOW_MS
    await clock.advance(WINDOW_MS)
    await limiter.reserve(acme, "d", 1)


async def test_that_minute_begins_with_its_start(limiter: TimedLimiter, clock: Clock) -> None:
    acme = tenant(requests=2)
    await limiter.reserve(acme, "a", 1)
    await clock.advance(10_000)
    await limiter._scripts._sender._connections.commands.flushall()
    await clock.restart()
    await clock.advance(40_000)
    assert wait_ms(await refused(limiter, acme, "b")) == WINDOW_MS - 40_000
    await clock.advance(20_000)
    await limiter.reserve(acme, "b", 1)


async def test_so_does_one_that_follows_another(limiter: TimedLimiter, clock: Clock) -> None:
    """A replica may lack what its master had answered."""
    acme = tenant(requests=2)
    await limiter.reserve(acme, "a", 1)
    await clock.become("replica", 0)
    await refused(limiter, acme, "b")
    await clock.advance(WINDOW_MS)
    await limiter.reserve(acme, "b", 1)


async def test_a_wiped_redis_is_found_out_by_whoever_had_asked_it(
    limiter: TimedLimiter, connections: Connections, clock: Clock
) -> None:
    acme, other = tenant(requests=2), TimedLimiter(connections, clock)
    await limiter.reserve(acme, "a", 1)
    await clock.advance(10)
    await connections.commands.flushall()
    await clock.set()
    await other.reserve(acme, "b", 1)  # has never heard of this tenant
    await refused(limiter, acme, "c")
    await refused(other, acme, "d")
    await clock.advance(WINDOW_MS)
    await other.reserve(acme, "d", 1)


async def test_a_tenant_that_is_new_to_an_old_redis_is_served_at_once(limiter: TimedLimiter) -> None:
    await limiter.reserve(tenant(requests=1), "a", 1)


async def test_concurrency_alone_is_known_again_once_every_gateway_has_told(
    limiter: TimedLimiter, connections: Connections, clock: Clock
) -> None:
    acme = tenant(concurrency=2)
    await limiter.reserve(acme, "a", 1)
    await connections.commands.flushall()
    await clock.advance(1)
    await clock.restart()
    await limiter.beat()
    assert wait_ms(await refused(limiter, acme, "b")) == LEASE_S * 1000
    await clock.advance(round(LEASE_S * 1000))
    await limiter.beat()
    await limiter.reserve(acme, "b", 1)
    await refused(limiter, acme, "c")


async def test_blindness_can_be_switched_off(connections: Connections, clock: Clock) -> None:
    limiter = TimedLimiter(connections, clock, blind_s=0)
    await clock.restart()
    await limiter.reserve(tenant(requests=1), "a", 1)


async def test_all_of_it_leaves_by_itself(
    limiter: TimedLimiter, connections: Connections, clock: Clock
) -> None:
    acme = tenant(requests=10, tokens=1000, concurrency=10)
    await limiter.reserve(acme, "open", 1)
    await (await limiter.reserve(acme, "over", 1)).settle(5)
    redis: Any = connections.commands
    keys = [key async for key in redis.scan_iter(prefix(NAME) + "*") if not key.endswith(b"clock")]
    assert len(keys) == 5
    assert [key for key in keys if not 0 < await redis.pttl(key) <= 3 * WINDOW_MS] == []


@asynccontextmanager
async def running(limiter: Limiter) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(forever(step)) for step in limiter.steps]
    yield
    for task in tasks:
        task.cancel()


class Flaky(Limiter):
    """Its calls arrive, and their answers are lost, until it is told otherwise."""

    broken = False

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections, LimitSettings(blind_s=0), heartbeat_s=0.05, lease_s=60)
        run = self._scripts.run

        async def lossy(name: str, tenant: str, *args: str | int) -> Any:
            answer = await run(name, tenant, *args)
            if self.broken:
                raise RedisError("lost on its way")
            return answer

        self._scripts.run = lossy  # type: ignore[method-assign]


async def test_a_reservation_whose_answer_was_lost_is_given_back(connections: Connections) -> None:
    limiter = Flaky(connections)
    async with running(limiter):
        acme = tenant(tokens=100, concurrency=1)
        limiter.broken = True
        with pytest.raises(RequestError) as error:
            await limiter.reserve(acme, "a", 100)
        assert error.value.problem.code is ErrorCode.QUEUE_UNAVAILABLE
        limiter.broken = False
        async with asyncio.timeout(120):
            while not limiter._unsettled.empty() or await _open(connections):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await limiter.reserve(acme, "b", 100)


async def test_an_outage_leaves_no_more_behind_than_it_may(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter_module, "_MOST_UNSURE", 3)
    limiter = Flaky(connections)
    acme = tenant(tokens=100, concurrency=1)
    reservation = await limiter.reserve(acme, "open", 100)
    limiter.broken = True
    for number in range(5):
        with pytest.raises(RequestError):
            await limiter.reserve(acme, str(number), 1)
    await reservation.settle(40)
    waiting = [limiter._unsettled.get_nowait().request_id for _ in range(limiter._unsettled.qsize())]
    assert waiting == ["0", "1", "2", "open"], "what was used is told in any case"


async def test_what_was_used_is_told_once_though_redis_was_away(connections: Connections) -> None:
    limiter = Flaky(connections)
    async with running(limiter):
        acme = tenant(tokens=100, concurrency=1)
        reservation = await limiter.reserve(acme, "a", 100)
        limiter.broken = True
        await reservation.settle(40)
        limiter.broken = False
        async with asyncio.timeout(120):
            while not limiter._unsettled.empty():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await limiter.reserve(acme, "b", 60)).headers["x-ratelimit-remaining-tokens"] == "0"


async def test_leases_are_renewed_while_a_request_is_open(connections: Connections) -> None:
    settings = LimitSettings(blind_s=0)
    limiter = Limiter(connections, settings, heartbeat_s=0.02, lease_s=60)
    async with running(limiter):
        acme, redis = tenant(concurrency=1), connections.commands
        reservation = await limiter.reserve(acme, "a", 1)
        first = await redis.zscore(prefix(NAME) + "leases", "a")
        async with asyncio.timeout(120):
            while await redis.zscore(prefix(NAME) + "leases", "a") < first + 1000:
                await refused(limiter, acme, "b")
        await reservation.settle(1)
        await limiter.reserve(acme, "b", 1)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (12, "12ms"),
        (1000, "1s"),
        (8640, "8.64s"),
        (60_000, "1m0s"),
        (360_000, "6m0s"),
        (83_456, "1m23.456s"),
        (3_600_000, "1h0m0s"),
        (7_261_000, "2h1m1s"),
    ],
)
def test_durations_are_written_as_openai_writes_them(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_nobody_is_told_to_wait_longer_than_the_sdks_do() -> None:
    assert retry_headers(90_000) == {"retry-after": "60", "retry-after-ms": "60000"}
    assert retry_headers(0) == {"retry-after": "1", "retry-after-ms": "1"}


async def _open(connections: Connections) -> int:
    count: int = await connections.commands.zcard(prefix(NAME) + "leases")
    return count
