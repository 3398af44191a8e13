"""Engine and diffusion: do engines work, and how many tokens does a forward bring?"""

from __future__ import annotations

from monitoring.dashboards.model import NEEDS_DECODER, ORANGE, RED, Dashboard, Panel, Query, Row
from monitoring.dashboards.queries import density, increase, most, quantiles, rate, ratio, total
from monitoring.dashboards.units import Unit

_TOKENS, _FORWARDS = "dllm_engine_committed_tokens_total", "dllm_engine_forwards_total"

WORK = Row(
    "Work",
    (
        Panel(
            "Output tokens a second",
            "Of the committed blocks sent.",
            Unit.TOKENS_A_SECOND,
            (rate(_TOKENS, "pool"),),
        ),
        Panel(
            "Slots busy, by engine",
            "Busy and no blocks: the engine hangs, and its worker starts it again after worker.stall_s.",
            Unit.NUMBER,
            (
                total("dllm_engine_slots_busy", "pool, instance", legend="{{pool}} {{instance}} busy"),
                total("dllm_engine_slots", "pool, instance", legend="{{pool}} {{instance}} slots"),
            ),
            leads_to="dllm-queue",
        ),
        Panel(
            "Blocks a second, by engine",
            "Committed blocks sent to gateways.",
            Unit.A_SECOND,
            (rate("dllm_engine_committed_blocks_total", "pool, instance"),),
        ),
        Panel(
            "How attempts end",
            "requeued: given back, as the worker leaves; fenced: the queue had given the job to another "
            "worker.",
            Unit.A_SECOND,
            (rate("dllm_worker_runs_total", "pool, outcome"),),
            stacked=True,
        ),
        Panel(
            "First block, at the engine",
            "From the question to the engine to its first block: prefill, and one block.",
            Unit.SECONDS,
            quantiles("dllm_engine_first_block_seconds", "pool", 0.5, 0.95),
        ),
        Panel(
            "Between two blocks, at the engine",
            "What the engine adds to the silence between two blocks; the gateways' figure has the way in "
            "it too.",
            Unit.SECONDS,
            quantiles("dllm_engine_block_seconds", "pool", 0.5, 0.95),
        ),
        Panel(
            "Rendering and tokenizing",
            "From a job's claim until its engine is asked. Long prompts and few CPUs make it grow.",
            Unit.SECONDS,
            quantiles("dllm_worker_prompt_seconds", "pool", 0.5, 0.95),
        ),
        Panel(
            "Prompts found in the cache",
            "Share of the prompt tokens that the engine did not have to compute.",
            Unit.SHARE,
            (ratio("dllm_engine_cached_prompt_tokens_total", "dllm_engine_prompt_tokens_total", "pool"),),
            most=1,
        ),
        Panel(
            "Prompt tokens a second",
            "Of the answers completed.",
            Unit.TOKENS_A_SECOND,
            (rate("dllm_engine_prompt_tokens_total", "pool"),),
        ),
        Panel(
            "What runs",
            "Engines by hardware profile, decoding algorithm and attention backend.",
            Unit.NUMBER,
            (total("dllm_engine_info", "pool, profile, algorithm, attention_backend"),),
        ),
    ),
)

DIFFUSION = Row(
    "Diffusion",
    (
        Panel(
            "Tokens per forward",
            "Over all forwards of a model. 1 would be an autoregressive model's; it falls with harder "
            "text, with a "
            "quality mode, or with something broken.",
            Unit.NUMBER,
            (
                ratio(_TOKENS, _FORWARDS, "pool", legend="{{pool}}"),
                Query(
                    'pool:dllm_engine_tokens_per_forward:ratio_rate30m{pool=~"$pool"}',
                    "{{pool}}, half an hour",
                ),
            ),
            needs=NEEDS_DECODER,
        ),
        Panel(
            "Tokens per forward, by block",
            "Quantiles over blocks: half of the blocks were decoded faster than the median.",
            Unit.NUMBER,
            quantiles("dllm_engine_tokens_per_forward", "pool", 0.1, 0.5, 0.9),
            needs=NEEDS_DECODER,
        ),
        Panel(
            "Tokens per forward, all of it",
            "How many blocks had how many tokens a forward.",
            Unit.NUMBER,
            (density("dllm_engine_tokens_per_forward", "pool"),),
            kind="heatmap",
            needs=NEEDS_DECODER,
        ),
        Panel(
            "Denoise steps of a block",
            "Forwards that committed or replaced a token.",
            Unit.NUMBER,
            quantiles("dllm_engine_steps_per_block", "pool", 0.5, 0.95),
            needs=NEEDS_DECODER,
        ),
        Panel(
            "Tokens replaced",
            "Share of committed tokens that were edited afterwards, by models and modes that edit.",
            Unit.SHARE,
            (ratio("dllm_engine_edits_total", _TOKENS, "pool"),),
            needs=NEEDS_DECODER,
        ),
        Panel(
            "Forwards a second",
            "Each counted for every request in it; those of prompts left out.",
            Unit.A_SECOND,
            (rate(_FORWARDS, "pool"),),
            needs=NEEDS_DECODER,
        ),
    ),
)

HEALTH = Row(
    "Health",
    (
        Panel(
            "Engines started again",
            "After the first start. Why is in the worker's log, and the engine's last output too.",
            Unit.NUMBER,
            (increase("dllm_engine_restarts_total", "pool, instance"),),
            levels=((1, ORANGE),),
        ),
        Panel(
            "Silence of engines",
            "Since an engine's last sign of life, while a job runs on it. After worker.stall_s (60 s) its "
            "worker starts it "
            "again.",
            Unit.SECONDS,
            (most("dllm_engine_silent_seconds", "pool, instance"),),
            levels=((60, ORANGE), (120, RED)),
        ),
        Panel(
            "Time to load",
            "From the engine's last start to its readiness.",
            Unit.SECONDS,
            (most("dllm_engine_load_seconds", "pool, instance"),),
        ),
        Panel(
            "Prompts one block a round",
            "1: the engine fell back to the slow way, and the worker's log says why.",
            Unit.YES_OR_NO,
            (most("dllm_engine_prefill_fallback", "pool, instance"),),
            levels=((1, ORANGE),),
            most=1,
        ),
        Panel(
            "Services that answer",
            "1: their /metrics were there at the last scrape.",
            Unit.YES_OR_NO,
            (Query('min by (job, instance) (up{job=~"gateway|router|worker"})', "{{job}} {{instance}}"),),
            most=1,
        ),
        Panel(
            "Attempts that fail",
            "Share of the attempts that ended on workers.",
            Unit.SHARE,
            (
                Query(
                    '(sum by (pool) (rate(dllm_worker_runs_total{pool=~"$pool", '
                    'outcome="failed"}[$__rate_interval])) '
                    'or 0 * sum by (pool) (rate(dllm_worker_runs_total{pool=~"$pool"}[$__rate_interval]))) '
                    '/ sum by (pool) (rate(dllm_worker_runs_total{pool=~"$pool"}[$__rate_interval]))',
                    "{{pool}}",
                ),
            ),
            levels=((0.01, ORANGE), (0.05, RED)),
        ),
    ),
)

ENGINE = Dashboard(
    "dllm-engine",
    "dllm-stack: engine and diffusion",
    "Whether engines work, and how many tokens a forward brings.",
    (WORK, DIFFUSION, HEALTH),
)
