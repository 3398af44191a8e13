"""Redis: is it there, fast, and large enough? By redis_exporter."""

from __future__ import annotations

from monitoring.dashboards.model import ORANGE, RED, Dashboard, Panel, Query, Row
from monitoring.dashboards.units import Unit

_EACH = "{{instance}}"
_COMMANDS = "redis_commands_total"

STATE = Row(
    "There, and fast",
    (
        Panel(
            "Redis answers",
            "1: the exporter reached it. 0: new requests get 503, running ones wait for "
            "gateway.reply_grace_s.",
            Unit.YES_OR_NO,
            (Query("min by (instance) (redis_up)", _EACH),),
            kind="stat",
            width=6,
            most=1,
        ),
        Panel(
            "Since its start",
            "A Redis that has just started may have lost what it held: gateways admit that again.",
            Unit.SECONDS,
            (Query("min by (instance) (redis_uptime_in_seconds)", _EACH),),
            kind="stat",
            width=6,
        ),
        Panel(
            "Ping",
            "Of the exporter, at each scrape. Each job needs several round trips.",
            Unit.SECONDS,
            (Query("max by (instance) (redis_exporter_last_scrape_ping_time_seconds)", _EACH),),
            kind="stat",
            width=6,
            levels=((0.01, ORANGE), (0.05, RED)),
        ),
        Panel(
            "Commands a second",
            "All clients together.",
            Unit.OPERATIONS_A_SECOND,
            (Query("sum by (instance) (rate(redis_commands_processed_total[$__rate_interval]))", _EACH),),
            kind="stat",
            width=6,
        ),
        Panel(
            "Time of a command",
            "Mean inside Redis, of the ten that take most time in all. evalsha and fcall are the queue's "
            "scripts.",
            Unit.SECONDS,
            (
                Query(
                    "topk(10, sum by (cmd) (rate(redis_commands_duration_seconds_total[$__rate_interval]))) "
                    f"/ sum by (cmd) (rate({_COMMANDS}[$__rate_interval]))",
                    "{{cmd}}",
                ),
            ),
            width=12,
        ),
        Panel(
            "Time in commands",
            "Share of a second that Redis' one thread works, by command. At 100 % all else waits.",
            Unit.SHARE,
            (
                Query(
                    "topk(10, sum by (cmd) (rate(redis_commands_duration_seconds_total[$__rate_interval])))",
                    "{{cmd}}",
                ),
            ),
            stacked=True,
            levels=((0.7, ORANGE), (0.9, RED)),
            width=12,
        ),
    ),
)

ROOM = Row(
    "Room",
    (
        Panel(
            "Memory",
            "Used, and the bound if there is one (0: none). At the bound new requests get 503.",
            Unit.BYTES,
            (
                Query("sum by (instance) (redis_memory_used_bytes)", "{{instance}} used"),
                Query("sum by (instance) (redis_memory_max_bytes)", "{{instance}} bound"),
            ),
        ),
        Panel(
            "Keys",
            "Of jobs, replies, heartbeats, affinities, tenants.",
            Unit.NUMBER,
            (Query("sum by (instance) (redis_db_keys)", _EACH),),
        ),
        Panel(
            "Keys thrown away",
            "Must be 0: maxmemory-policy has to be noeviction.",
            Unit.NUMBER,
            (Query("sum by (instance) (increase(redis_evicted_keys_total[$__rate_interval]))", _EACH),),
            levels=((1, RED),),
        ),
    ),
)

CLIENTS = Row(
    "Clients",
    (
        Panel(
            "Connections",
            "Connected, and of those waiting in a blocking command: each service has some.",
            Unit.NUMBER,
            (
                Query("sum by (instance) (redis_connected_clients)", "{{instance}} connected"),
                Query("sum by (instance) (redis_blocked_clients)", "{{instance}} blocked"),
            ),
        ),
        Panel(
            "Connections refused",
            "Redis' maxclients is reached.",
            Unit.NUMBER,
            (
                Query(
                    "sum by (instance) (increase(redis_rejected_connections_total[$__rate_interval]))", _EACH
                ),
            ),
            levels=((1, RED),),
        ),
        Panel(
            "Network",
            "Bytes to and from Redis.",
            Unit.BYTES_A_SECOND,
            (
                Query(
                    "sum by (instance) (rate(redis_net_input_bytes_total[$__rate_interval]))",
                    "{{instance}} in",
                ),
                Query(
                    "sum by (instance) (rate(redis_net_output_bytes_total[$__rate_interval]))",
                    "{{instance}} out",
                ),
            ),
        ),
        Panel(
            "Calls, as services see them",
            "99 % of a service's calls had their answer within this time, the wait for a connection "
            "included.",
            Unit.SECONDS,
            (
                Query(
                    "histogram_quantile(0.99, sum by (le, job) "
                    "(rate(dllm_redis_seconds_bucket[$__rate_interval])))",
                    "{{job}} 99%",
                ),
            ),
            levels=((0.05, RED),),
        ),
        Panel(
            "Slowest calls",
            "Means of the ten scripts and commands that take longest.",
            Unit.SECONDS,
            (
                Query(
                    "topk(10, sum by (job, command) (rate(dllm_redis_seconds_sum[$__rate_interval])) "
                    "/ sum by (job, command) (rate(dllm_redis_seconds_count[$__rate_interval])))",
                    "{{job}} {{command}}",
                ),
            ),
        ),
        Panel(
            "Calls that failed",
            "Or had no answer in time, by service.",
            Unit.OPERATIONS_A_SECOND,
            (
                Query(
                    "sum by (job) (rate(dllm_redis_errors_total[$__rate_interval])) "
                    "or 0 * sum by (job) (rate(dllm_redis_seconds_count[$__rate_interval]))",
                    "{{job}}",
                ),
            ),
            levels=((0.001, ORANGE),),
        ),
        Panel(
            "Requests that Redis failed",
            "503 queue_unavailable, as gateways gave it: what users saw of an outage.",
            Unit.REQUESTS_A_SECOND,
            (
                Query(
                    'sum(rate(dllm_requests_total{code="queue_unavailable"}[$__rate_interval])) or vector(0)',
                    "requests",
                ),
            ),
            levels=((0.001, RED),),
            leads_to="dllm-overview",
        ),
    ),
)

REDIS = Dashboard(
    "dllm-redis",
    "dllm-stack: Redis",
    "Whether Redis is there, fast, and large enough. Needs redis_exporter, run with --ping-on-connect.",
    (STATE, ROOM, CLIENTS),
)
