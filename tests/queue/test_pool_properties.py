"""Whatever happens in whatever order: a plain model of the queue, and the queue, agree."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from dllm_stack.messages import Block, Cancel, Claim, Command, Committed, End, Place, Tier, encode
from dllm_stack.outcomes import Outcome
from dllm_stack.queue import START
from dllm_stack.redis import Connections
from dllm_stack.settings import Bounds, QueueSettings, RedisSettings, TenantSettings
from tests.queue.kit import (
    BEGINNING,
    CANCELLED,
    DONE,
    FAILED,
    POOL,
    PREFIX,
    WatchedQueue,
    beat,
    commands,
    job,
    keys_of_jobs,
    kill,
    pass_time,
    replies,
)
from tests.queue.pool_model import Model, ModelJob

T = TypeVar("T")
WORKERS, GATEWAYS, TENANTS = ("w0", "w1", "w2"), ("g0", "g1"), ("calm", "heavy", "limited")
RUNS = int(os.environ.get("DLLM_TEST_QUEUE_RUNS", "100"))  # of 60 steps each
# Every limit of time lies between two multiples of it, by more than a run takes on a slow machine.
STEP_S = 130.0
FIRST = "local math = setmetatable({random = function() return 1 end}, {__index = math})\n"
SETTINGS = QueueSettings(
    max_waiting_jobs=6,
    max_waiting_bytes=1200,
    tiers={Tier.PRIORITY: Bounds(max_waiting_jobs=4)},
    tenants={
        "heavy": TenantSettings(weight=3.0, max_waiting_bytes=700),
        "limited": TenantSettings(max_running=1, max_waiting_jobs=3),
    },
    ageing_s=195,
    max_attempts=3,
    breaker_failures=2,
    breaker_s=195,  # doubled, it is 300
    heartbeat_ttl_s=10_000,
)


# One rule that chooses among these: of several rules hypothesis leaves some out of each run, and then most
# runs would come to nothing.
STEPS = [
    *5 * ["admit"],
    *4 * ["dispatch"],
    *4 * ["commit"],
    *3 * ["serve"],
    *3 * ["give_back"],
    *3 * ["go_on_elsewhere"],
    *2 * ["finish"],
    *2 * ["cancel"],
    *2 * ["change_slots"],
    *2 * ["time_passes"],
    *2 * ["worker_goes"],
    *2 * ["order"],
    *["reclaim", "gateway_goes", "redis_forgets"],
]
JOBS = st.fixed_dictionaries(
    {
        "gateway": st.sampled_from(GATEWAYS),
        "tenant": st.sampled_from(TENANTS),
        "tier": st.sampled_from(Tier),
        "text": st.sampled_from(("hi", "x" * 200)),
        "max_tokens": st.sampled_from((1, 100)),
        "timeout_s": st.sampled_from((None, None, 195.0)),
        "session": st.sampled_from((None, "s")),
    }
)


class FirstQueue(WatchedQueue):
    """Where any worker will do, it takes the first: a run of the test can be repeated."""

    def __init__(self, connections: Connections, pool: str, settings: QueueSettings) -> None:
        super().__init__(connections, pool, settings)
        self._scripts._head += FIRST


class RepeatingQueue(FirstQueue):
    """Every script is sent once more, as after a connection lost before the answer came."""

    async def _run(self, script: str, *args: str | bytes | int | float) -> Any:
        answer = await super()._run(script, *args)
        await super()._run(script, *args)
        return answer


class QueueMachine(RuleBasedStateMachine):
    url: str
    queue_class: type[FirstQueue] = FirstQueue

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        # A busy machine must not look like a lost Redis, whose command is sent again.
        self.connections = Connections(RedisSettings(url=self.url, timeout_s=120))
        self.queue = self.queue_class(self.connections, POOL, SETTINGS)
        self.model = Model(SETTINGS, GATEWAYS)
        self.created = 0
        self.tally: Counter[str] = Counter()
        self.at_once: Counter[Tier] = Counter()
        self.do(self.connections.commands.flushall())
        for worker in WORKERS:
            self.heartbeat(worker, 1)

    def do(self, call: Awaitable[T]) -> T:
        async def wait() -> T:
            return await call

        return self.loop.run_until_complete(wait())

    def teardown(self) -> None:
        """Once all has ended nothing is left but what leaves by itself."""
        for model_job in list(self.model.jobs.values()):
            self.do(self.queue.cancel(model_job.job.id))
            if model_job.worker is not None:
                done = (model_job.worker, model_job.job.id, model_job.attempt)
                assert self.do(self.queue.finish(*done, BEGINNING, CANCELLED))
        assert self.do(keys_of_jobs(self.connections)) == []
        for worker in WORKERS:
            self.do(self.queue.worker_leave(worker))
        for gateway in GATEWAYS:
            self.do(self.queue.gateway_leave(gateway))
        left: list[Any] = self.do(self.connections.commands.keys("*"))
        assert [key for key in left if self.do(self.connections.commands.pttl(key)) < 0] == []
        self.do(self.connections.aclose())
        self.loop.close()

    @rule(data=st.data(), step=st.sampled_from(STEPS))
    def step(self, data: st.DataObject, step: str) -> None:
        getattr(self, step)(data)

    # Time and Redis

    def time_passes(self, data: st.DataObject) -> None:
        steps = data.draw(st.sampled_from((1, 1, 2, 5)))
        self.do(pass_time(self.connections, steps * STEP_S))
        self.model.now += steps * STEP_S
        for worker, state in self.model.workers.items():
            self.heartbeat(worker, state.slots)
        for gateway in GATEWAYS:
            self.do(self.queue.gateway_heartbeat(gateway, START))

    def redis_forgets(self, data: st.DataObject) -> None:
        """Each worker and gateway comes back, and each gateway with what it has."""
        self.reclaim()
        self.do(self.connections.commands.flushall())
        old, self.model.jobs = list(self.model.jobs.values()), {}
        self.model.start_anew()
        self.model.dead = []
        self.model.forget_orders()
        for gateway in GATEWAYS:
            self.model.told[gateway] = []
        for worker, state in list(self.model.workers.items()):
            del self.model.workers[worker]
            self.heartbeat(worker, state.slots)
        self.heartbeat(WORKERS[0], 1)
        for lost in sorted(old, key=lambda job: job.order):
            if not lost.cancelled:
                committed = Committed(token_ids=lost.token_ids, characters=lost.characters)
                attempts = lost.attempt + SETTINGS.max_attempts
                assert self.do(self.queue.admit(lost.job, attempts=attempts, committed=committed)) is None
                self.model.readmit(lost, attempts, self.queue.told())

    # Gateways

    def admit(self, data: st.DataObject) -> None:
        for fields in data.draw(st.lists(JOBS, min_size=1, max_size=4)):
            self.created += 1
            new = job(self.created, **fields)
            is_admitted = self.do(self.queue.admit(new)) is None
            assert is_admitted == self.model.admit(new, self.queue.told())

    def cancel(self, data: st.DataObject) -> None:
        if not self.model.jobs:
            return
        id = data.draw(st.sampled_from(sorted(self.model.jobs)))
        cancelled = self.model.jobs[id]
        if data.draw(st.booleans()):
            assert self.do(self.queue.revoke(id)) != cancelled.cancelled
            self.model.call_off(cancelled, "revoked", Outcome.CANCELLED)
        else:
            self.do(self.queue.cancel(id))
            self.model.cancel(cancelled)

    def gateway_goes(self, data: st.DataObject) -> None:
        gateway, dies = data.draw(st.sampled_from(GATEWAYS)), data.draw(st.booleans())
        mine = [job for job in self.model.jobs.values() if job.job.gateway == gateway]
        if dies and mine:
            self.do(kill(self.connections, "gateways", gateway))
        else:
            self.do(self.queue.gateway_leave(gateway))
            dies = False
        for model_job in mine:
            self.model.cancel(model_job)
        if dies:
            self.reclaim()
        self.model.told[gateway] = []

    # Routers

    def dispatch(self, data: st.DataObject) -> None:
        self.model.dispatch(self.do(self.queue.dispatch()))

    def serve(self, data: st.DataObject) -> None:
        """Jobs are handed out and end, and again."""
        for tokens in data.draw(st.lists(st.sampled_from((0, 50, 150)), min_size=1, max_size=4)):
            self.dispatch(data)
            for held in self.model.running():
                assert held.worker is not None
                end = replace(DONE, prompt_tokens=0, completion_tokens=tokens)
                lease = (held.worker, held.job.id, held.attempt)
                assert self.do(self.queue.finish(*lease, held.place, end))
                self.model.worker_succeeded(held.worker)
                if not held.cancelled:
                    self.model.tell(held, held.worker, held.attempt, held.place, end.outcome)
                self.model.finish(held, tokens)

    def reclaim(self, data: st.DataObject | None = None) -> None:
        reclaimed = self.do(self.queue.reclaim())
        self.model.expire()
        self.tally.update(reclaimed.tally)
        self.at_once.update(reclaimed.at_once)
        assert (self.tally, self.at_once) == (self.model.tally, self.model.at_once)
        assert not reclaimed.more

    # Workers

    def change_slots(self, data: st.DataObject) -> None:
        self.heartbeat(data.draw(st.sampled_from(WORKERS)), data.draw(st.sampled_from((0, 1, 2, 3))))

    def heartbeat(self, worker: str, slots: int) -> None:
        held = [job.job.id for job in self.model.running(worker)]
        assert self.do(beat(self.queue, worker, slots, held=held)) == []
        self.model.worker(worker).slots = slots

    def lease(self, data: st.DataObject) -> tuple[tuple[str, str, int], ModelJob | None]:
        """Any lease there ever was, more often one that holds, and its job if it does."""
        live = [(job.job.id, job.worker, job.attempt) for job in self.model.running() if job.worker]
        past = self.model.leases
        id, worker, attempt = data.draw(st.sampled_from(live or past) | st.sampled_from(live + past))
        held = self.model.jobs.get(id)
        valid = held is not None and held.worker == worker and held.attempt == attempt
        return (worker, id, attempt), held if valid else None

    def place(self, data: st.DataObject, held: ModelJob | None) -> Place:
        """Where a worker thinks that an answer is: often right, else it repeats or Redis has lost some."""
        place = held.place if held else BEGINNING
        off = data.draw(st.sampled_from((0, 0, 0, 0, -1, 1)))
        return Place(max(0, place.tokens + off), max(0, place.characters + off))

    def commit(self, data: st.DataObject) -> None:
        if not self.model.leases:
            return
        lease, held = self.lease(data)
        place = self.place(data, held)
        count = data.draw(st.integers(1, 3))
        block = Block(text="t" * (count + 1), token_ids=list(range(count)), prompt_tokens=1)
        self._commit(lease, held, place, block)

    def _commit(self, lease: tuple[str, str, int], held: ModelJob | None, place: Place, block: Block) -> None:
        committal = self.do(self.queue.commit(*lease, place, block))
        assert committal.wanted == (held is not None and not held.cancelled)
        if held is None:
            return
        if place.tokens == held.place.tokens and not held.cancelled:
            self.model.tell(held, lease[0], held.attempt, place, "block")
            self.model.commit(held, block.token_ids, place.characters + len(block.text))
        assert committal.tokens == len(held.token_ids)

    def go_on_elsewhere(self, data: st.DataObject) -> None:
        """An answer begins, and another attempt goes on with it."""
        if live := self.model.running():
            held = data.draw(st.sampled_from(live))
            assert held.worker is not None
            lease, block = (
                (held.worker, held.job.id, held.attempt),
                Block(text="t", token_ids=[1], prompt_tokens=1),
            )
            self._commit(lease, held, held.place, block)
            assert self.do(self.queue.release(*lease, counts=False)) == self.model.give_back(
                held, counts=False
            )
        self.dispatch(data)

    def finish(self, data: st.DataObject) -> None:
        if not self.model.leases:
            return
        lease, held = self.lease(data)
        place = self.place(data, held)
        used = data.draw(st.sampled_from((0, 50, 150)))
        end: End = data.draw(st.sampled_from((DONE, FAILED)))
        end = replace(end, prompt_tokens=0, completion_tokens=used)
        block = Block(text="t", token_ids=[7], prompt_tokens=1)
        assert self.do(self.queue.finish(*lease, place, end, block)) == (held is not None)
        if held is None:
            return
        if place.tokens > held.place.tokens:
            self.model.give_back(held, counts=True)
            return
        if end.outcome is Outcome.COMPLETED:
            self.model.worker_succeeded(lease[0])
        else:
            self.model.worker_failed(lease[0])
        if not held.cancelled:
            self.model.tell(held, lease[0], held.attempt, place, end.outcome)
        self.model.finish(held, used)

    def give_back(self, data: st.DataObject) -> None:
        if not self.model.leases:
            return
        lease, held = self.lease(data)
        how = data.draw(st.sampled_from(("failure", "unseen", "cancelled")))
        if how == "cancelled":
            assert self.do(self.queue.finish(*lease, BEGINNING, CANCELLED)) == (held is not None)
            if held is not None:
                self.model.give_back(held, counts=True)
            return
        counts = how == "failure"
        fate = self.do(self.queue.release(*lease, counts=counts))
        if held is None:
            assert fate == "fenced"
            return
        if counts:
            self.model.worker_failed(lease[0])
        assert fate == self.model.give_back(held, counts=counts)

    def worker_goes(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(WORKERS))
        how = data.draw(st.sampled_from(("dies", "leaves")))
        if worker not in self.model.workers:
            self.heartbeat(worker, 2)
            return
        if how == "dies":
            self.do(kill(self.connections, "workers", worker))
            self.model.worker_gone(worker, counts=True)
            self.reclaim()
        else:
            self.do(self.queue.worker_leave(worker))
            self.model.worker_gone(worker, counts=False)
        if data.draw(st.booleans()):
            self.heartbeat(worker, 2)

    # Operators

    def order(self, data: st.DataObject) -> None:
        what = data.draw(st.sampled_from(("pause", "drain", "resume")))
        if data.draw(st.booleans()):
            worker = data.draw(st.sampled_from(WORKERS))
            takes_jobs = self.do(getattr(self.queue, f"{what}_worker")(worker))
            self.model.order_worker(what, worker)
            assert what != "resume" or takes_jobs == (worker not in self.model.drained)
            return
        self.do(getattr(self.queue, what)())
        self.model.order(what)
        if self.model.paused or self.model.draining:  # a pool that always is would not do much
            self.dispatch(data)
            self.admit(data)
            if data.draw(st.sampled_from((True, True, True, False))):
                self.do(self.queue.resume())
                self.model.order("resume")

    @invariant()
    def same_depth(self) -> None:
        depth = self.do(self.queue.depth())
        for tier in Tier:
            waiting = self.model.waiting(tier)
            assert depth.tiers[tier].waiting == len(waiting)
            assert depth.tiers[tier].waiting_bytes == sum(len(encode(job.job)) for job in waiting)
        assert depth.running == len(self.model.running())
        assert depth.dead_letters == len(self.model.dead)
        assert (depth.paused, depth.draining) == (self.model.paused, self.model.draining)

    @invariant()
    def same_shares(self) -> None:
        fair: Any = self.do(self.connections.commands.hgetall(PREFIX + "fair"))
        assert int(fair.get(b"turn", 0)) == self.model.turn
        for tier, shares in self.model.shares.items():
            assert float(fair.get(tier.encode(), 0)) == pytest.approx(shares.now)
            for key, expected in ((f"ready:{tier}", shares.ready), (f"tags:{tier}", shares.ahead)):
                found = self.do(zset(self.connections, key))
                assert found == pytest.approx(expected)

    @invariant()
    def same_workers(self) -> None:
        for status in self.do(self.queue.workers()):
            worker, state = status.card.id, self.model.workers[status.card.id]
            running = self.model.running(worker)
            assert (status.running, status.load) == (len(running), sum(job.estimate for job in running))
            assert (status.failures, status.draining) == (state.failures, worker in self.model.drained)
            assert status.paused == (worker in self.model.paused_workers)
            assert (status.set_aside_until is None) == (state.set_aside_until is None)
            if state.commands:
                # A dead gateway's jobs are cancelled in any order.
                found = self.do(commands(self.queue, worker))
                assert _claims(found) == _claims(state.commands)
                assert sorted(_cancels(found)) == sorted(_cancels(state.commands))

    @invariant()
    def same_replies(self) -> None:
        for gateway, told in self.model.told.items():
            if told:
                found = self.do(replies(self.queue, gateway))
                assert told == [
                    (r.job_id, r.worker, r.attempt, r.after, r.end.outcome if r.end else "block")
                    for r in found
                ]


def _claims(commands: Sequence[Command]) -> list[Claim]:
    return [command for command in commands if isinstance(command, Claim)]


def _cancels(commands: Sequence[Command]) -> list[tuple[str, int]]:
    return [(command.job_id, command.attempt) for command in commands if isinstance(command, Cancel)]


async def zset(connections: Connections, key: str) -> dict[str, float]:
    found: Any = await connections.commands.zrange(PREFIX + key, 0, -1, withscores=True)
    return {member.decode(): score for member, score in found}


class RepeatingMachine(QueueMachine):
    queue_class = RepeatingQueue


@pytest.mark.timeout(300 + 10 * RUNS)
@pytest.mark.parametrize("machine", [QueueMachine, RepeatingMachine])
def test_the_queue_equals_its_model(redis_settings: RedisSettings, machine: type[QueueMachine]) -> None:
    machine.url = redis_settings.url
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
