"""Queue and fairness: who waits, for how long, and what becomes of them."""

from __future__ import annotations

from monitoring.dashboards.model import ORANGE, RED, Dashboard, Panel, Query, Row
from monitoring.dashboards.queries import density, increase, most, quantiles, rate
from monitoring.dashboards.units import Unit

_WAIT = "dllm_queue_wait_seconds"

DEPTH = Row(
    "Waiting",
    (
        Panel(
            "Jobs waiting",
            "By priority class. Flex jobs are the first to be dropped from a full queue.",
            Unit.NUMBER,
            (most("dllm_queue_jobs", "pool, tier"),),
            stacked=True,
        ),
        Panel(
            "The oldest job",
            "How long it has waited. A class above that grows: too few slots. Only flex grows: as "
            "intended, up to "
            "queue.ageing_s and a slot in eight.",
            Unit.SECONDS,
            (most("dllm_queue_oldest_age_seconds", "pool, tier"),),
            levels=((10, ORANGE), (30, RED)),
        ),
        Panel(
            "Bytes waiting",
            "Of all jobs that wait; beyond queue.max_waiting_bytes new ones get 429.",
            Unit.BYTES,
            (Query('sum by (pool) (max by (pool, tier) (dllm_queue_bytes{pool=~"$pool"}))', "{{pool}}"),),
            levels=((0.8 * 268435456, ORANGE), (268435456, RED)),
        ),
        Panel(
            "Wait until dispatch",
            "Of the jobs that got a slot. A job that came back from a dead worker counts again, from its "
            "admission.",
            Unit.SECONDS,
            quantiles(_WAIT, "pool, tier", 0.5, 0.95),
            levels=((30, RED),),
        ),
        Panel(
            "Wait until dispatch, all of it",
            "How many jobs waited how long.",
            Unit.SECONDS,
            (density(_WAIT, "pool"),),
            kind="heatmap",
        ),
        Panel(
            "Dispatched",
            "Jobs that got a slot, by class: the share of each.",
            Unit.A_SECOND,
            (rate(f"{_WAIT}_count", "pool, tier"),),
            stacked=True,
        ),
    ),
)

SLOTS = Row(
    "Slots",
    (
        Panel(
            "Running, and slots",
            "Where the lines meet, jobs wait.",
            Unit.NUMBER,
            (
                most("dllm_pool_jobs_running", "pool", legend="{{pool}} running"),
                most("dllm_pool_slots", "pool", legend="{{pool}} slots"),
            ),
            leads_to="dllm-capacity",
        ),
        Panel(
            "Workers",
            "Live ones, loading ones too; and those set aside, because they failed several times in a row.",
            Unit.NUMBER,
            (
                most("dllm_pool_workers", "pool", legend="{{pool}} live"),
                most("dllm_pool_workers_set_aside", "pool", legend="{{pool}} set aside"),
            ),
            leads_to="dllm-engine",
        ),
        Panel(
            "Paused or drained by order",
            "1: it is so, until somebody takes it back with `dllm-stack queue resume`.",
            Unit.YES_OR_NO,
            (
                most("dllm_pool_paused", "pool", legend="{{pool}} paused"),
                most("dllm_pool_draining", "pool", legend="{{pool}} draining"),
            ),
            levels=((1, ORANGE),),
            most=1,
        ),
    ),
)

LOST = Row(
    "Refused, ended, lost",
    (
        Panel(
            "Refused for want of room, or by a limit",
            "queue_full: the pool, its tier or the tenant has no place left. rate_limit_exceeded: the "
            "tenant's own limit.",
            Unit.REQUESTS_A_SECOND,
            (
                rate(
                    "dllm_requests_total",
                    "model, code",
                    'code=~"queue_full|rate_limit_exceeded"',
                    "{{model}} {{code}}",
                ),
            ),
        ),
        Panel(
            "Ended by the queue",
            "expired: waited for too long; shed: made room for others; no_worker; worker_lost: too often; "
            "revoked: by an "
            "operator.",
            Unit.A_SECOND,
            (rate("dllm_queue_ended_total", "pool, reason"),),
        ),
        Panel(
            "Taken from dead workers",
            "requeued: another worker goes on; failed: it has lost too many; cancelled: nobody waits for "
            "it any more.",
            Unit.NUMBER,
            (increase("dllm_queue_reclaimed_total", "pool, fate"),),
        ),
        Panel(
            "Answers continued",
            "Dispatches of a job with a part of its answer made before: a worker or an engine was lost in "
            "mid-answer.",
            Unit.NUMBER,
            (increase("dllm_queue_continued_total", "pool"),),
        ),
        Panel(
            "Jobs of dead gateways",
            "Cancelled, as nobody waits for their answers.",
            Unit.NUMBER,
            (increase("dllm_queue_orphans_total", "pool"),),
        ),
        Panel(
            "Dead letters",
            "Jobs that lost all their workers within a day. `dllm-stack queue ls POOL` lists them.",
            Unit.NUMBER,
            (most("dllm_queue_dead_letters", "pool"),),
            levels=((1, ORANGE),),
        ),
    ),
)

FAIRNESS = Row(
    "Tenants",
    (
        Panel(
            "Requests by tenant",
            "The ten that ask most. Their shares of tokens under contention follow from their weights.",
            Unit.REQUESTS_A_SECOND,
            (
                Query(
                    "topk(10, sum by (tenant) (rate(dllm_tenant_requests_total[$__rate_interval])))",
                    "{{tenant}}",
                ),
            ),
            stacked=True,
            width=12,
            needs="keys to be on",
        ),
        Panel(
            "Requests of tenants that were not completed",
            "By how they ended: rejected ones met a bound or a limit.",
            Unit.REQUESTS_A_SECOND,
            (
                Query(
                    "topk(10, sum by (tenant, outcome) "
                    '(rate(dllm_tenant_requests_total{outcome!="completed"}[$__rate_interval])))',
                    "{{tenant}} {{outcome}}",
                ),
            ),
            stacked=True,
            width=12,
            needs="keys to be on, and requests that were not completed",
        ),
    ),
)

QUEUE = Dashboard(
    "dllm-queue",
    "dllm-stack: queue and fairness",
    "Who waits, for how long, and what becomes of them.",
    (DEPTH, SLOTS, LOST, FAIRNESS),
)
