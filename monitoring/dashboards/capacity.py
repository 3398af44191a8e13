"""Capacity and cost of each hardware profile: what there is, what is used, what a token costs."""

from __future__ import annotations

from monitoring.dashboards.model import NEEDS_GPU, ORANGE, RED, Dashboard, Panel, Query, Row, labels, text_box
from monitoring.dashboards.queries import most
from monitoring.dashboards.units import Unit

_SELECTED = '{pool=~"$pool", profile=~"$profile"}'
_BY = "sum by (pool, profile)"
_LEGEND = "{{pool}} {{profile}}"
_TOKENS = f"{_BY} (rate(dllm_engine_committed_tokens_total{_SELECTED}[$__rate_interval]))"
_WORKERS = f"count by (pool, profile) (dllm_engine_slots{_SELECTED})"
_THERE = f"{_BY} (dllm_engine_slots{_SELECTED})"
_BUSY = f"{_BY} (dllm_engine_slots_busy{_SELECTED})"
_WAITING = 'sum by (pool) (max by (pool, tier) (dllm_queue_jobs{pool=~"$pool"}))'
_RUNNING = most("dllm_pool_jobs_running", "pool").expr
_SLOTS = most("dllm_pool_slots", "pool").expr

USE = Row(
    "Use",
    (
        Panel(
            "Slots busy",
            "Share of the slots of a pool's workers of one profile. Above 80 % for long: short bursts "
            "already wait.",
            Unit.SHARE,
            (Query(f"{_BUSY} / ({_THERE} > 0)", _LEGEND),),
            levels=((0.8, ORANGE), (1, RED)),
            most=1,
        ),
        Panel(
            "Slots wanted",
            "Running and waiting jobs, beside the slots there are: the difference is what is missing, and "
            "what an "
            "autoscaler would follow.",
            Unit.NUMBER,
            (
                Query(f"{_WAITING} + {_RUNNING}", "{{pool}} wanted"),
                Query(_SLOTS, "{{pool}} there"),
            ),
            leads_to="dllm-queue",
        ),
        Panel(
            "Workers, and their GPUs",
            "Those that answer with their metrics; one worker is one engine, whatever its number of GPUs.",
            Unit.NUMBER,
            (
                Query(_WORKERS, f"{_LEGEND} workers"),
                Query(f"{_BY} (dllm_engine_gpus{_SELECTED})", f"{_LEGEND} GPUs"),
            ),
        ),
        Panel(
            "Tokens a second, a worker",
            "What one engine brings at this load.",
            Unit.TOKENS_A_SECOND,
            (Query(f"{_TOKENS} / {_WORKERS}", _LEGEND),),
        ),
        Panel(
            "Tokens a second, a busy slot",
            "How fast one answer is. It falls as more slots are busy; where it falls as fast as they fill, "
            "more "
            "slots bring nothing.",
            Unit.TOKENS_A_SECOND,
            (Query(f"{_TOKENS} / ({_BUSY} > 0)", _LEGEND),),
        ),
        Panel(
            "Time until the queue is empty",
            "At the present pace of dispatches, if nothing more came.",
            Unit.SECONDS,
            (
                Query(
                    f"{_WAITING} / (sum by (pool) "
                    '(rate(dllm_queue_wait_seconds_count{pool=~"$pool"}[$__rate_interval])) > 0)',
                    "{{pool}}",
                ),
            ),
            levels=((30, ORANGE), (300, RED)),
        ),
    ),
)

COST = Row(
    "Cost",
    (
        Panel(
            "A million output tokens",
            "Price of the workers there are, idle or not, by the tokens of the answers. The price of a "
            "worker's hour "
            "is typed in above, and is one machine's: select its profile.",
            Unit.DOLLARS,
            (Query(f"1e6 / 3600 * $price * {_WORKERS} / ({_TOKENS} > 0)", _LEGEND),),
        ),
        Panel(
            "A million output tokens, if no slot were idle",
            "The same at the speed of the busy slots: what there is to gain by filling them.",
            Unit.DOLLARS,
            (
                Query(
                    f"1e6 / 3600 * $price * {_WORKERS} * (({_BUSY} > 0) / ({_THERE} > 0)) / ({_TOKENS} > 0)",
                    _LEGEND,
                ),
            ),
        ),
        Panel(
            "An hour of the stack",
            "Workers times the price of one.",
            Unit.DOLLARS,
            (Query(f"$price * {_WORKERS}", _LEGEND),),
        ),
    ),
)

GPUS = Row(
    "GPUs",
    (
        Panel(
            "Tokens a second, a GPU",
            "To compare profiles of several sizes.",
            Unit.TOKENS_A_SECOND,
            (Query(f"{_TOKENS} / ({_BY} (dllm_engine_gpus{_SELECTED}) > 0)", _LEGEND),),
            width=6,
            needs=NEEDS_GPU,
        ),
        Panel(
            "GPU busy",
            "Share of the time in which a kernel ran.",
            Unit.PERCENT,
            (Query("DCGM_FI_DEV_GPU_UTIL", "{{Hostname}} {{gpu}}"),),
            width=6,
            most=100,
            needs=NEEDS_GPU,
        ),
        Panel(
            "GPU memory",
            "In use.",
            Unit.BYTES,
            (Query("DCGM_FI_DEV_FB_USED * 1048576", "{{Hostname}} {{gpu}}"),),
            width=6,
            needs=NEEDS_GPU,
        ),
        Panel(
            "GPU power",
            "Drawn now, of all GPUs of a machine.",
            Unit.WATTS,
            (Query("sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE)", "{{Hostname}}"),),
            width=6,
            needs=NEEDS_GPU,
        ),
    ),
)

CAPACITY = Dashboard(
    "dllm-capacity",
    "dllm-stack: capacity and cost",
    "What there is of each hardware profile, what is used, and what a token costs.",
    (USE, COST, GPUS),
    (
        labels("profile", "Profile", "Hardware profile of the workers.", "dllm_engine_slots"),
        text_box("price", "Worker-hour, $", "Price of an hour of one worker, with all of its GPUs.", "4"),
    ),
)
