"""Overview: are users served, how fast, and what is in their way?"""

from __future__ import annotations

from monitoring.dashboards.model import ORANGE, RED, Dashboard, Panel, Query, Row
from monitoring.dashboards.queries import density, most, quantiles, rate, ratio, total
from monitoring.dashboards.units import Unit

TTFT, ITL = "dllm_time_to_first_token_seconds", "dllm_inter_token_latency_seconds"
_PARTS = "dllm_time_to_first_token_part_seconds"
_WINDOWS = (("5m", "5 min"), ("1h", "1 h"), ("6h", "6 h"), ("3d", "3 d"))
_FIRST = 'histogram_quantile(0.95, sum by (le) (rate({}_bucket{{model=~"$pool"}}[$__rate_interval])))'


def _burn(recorded: str, budget: float) -> tuple[Query, ...]:
    return tuple(
        Query(f'{recorded}:ratio_rate{window}{{model=~"$pool"}} / {budget:g}', f"{{{{model}}}} over {words}")
        for window, words in _WINDOWS
    )


NOW = Row(
    "Now",
    (
        Panel(
            "Requests that fail",
            "Share of the requests of the last five minutes that failed for the stack's own reasons; "
            "refusals for a "
            "full queue or a limit are not among them. The objective is 0.1 % over 30 days.",
            Unit.SHARE,
            (Query('max(model:dllm_requests_failed:ratio_rate5m{model=~"$pool"})', "worst model"),),
            kind="stat",
            levels=((0.001, ORANGE), (0.0144, RED)),
            width=4,
            leads_to="dllm-engine",
        ),
        Panel(
            "Time to first token, 95 %",
            "95 % of the answers began within this time. The objective is 5 s for 99 %.",
            Unit.SECONDS,
            (Query(_FIRST.format(TTFT), "95 %"),),
            kind="stat",
            levels=((2, ORANGE), (5, RED)),
            width=4,
            leads_to="dllm-queue",
        ),
        Panel(
            "Inter-token latency, 95 %",
            "95 % of the tokens came within this time of the one before; a block of k tokens after d "
            "seconds counts as k "
            "times d/k.",
            Unit.SECONDS,
            (Query(_FIRST.format(ITL), "95 %"),),
            kind="stat",
            levels=((0.05, ORANGE), (0.2, RED)),
            width=4,
            leads_to="dllm-engine",
        ),
        Panel(
            "Requests a second",
            "All that ended, however they ended.",
            Unit.REQUESTS_A_SECOND,
            (Query('sum(rate(dllm_requests_total{model=~"$pool"}[$__rate_interval]))', "requests"),),
            kind="stat",
            width=4,
        ),
        Panel(
            "Slots busy",
            "Share of all slots. At 100 % new requests wait.",
            Unit.SHARE,
            (Query('max(pool:dllm_pool_slots_busy:ratio{pool=~"$pool"})', "fullest pool"),),
            kind="stat",
            levels=((0.8, ORANGE), (1, RED)),
            width=4,
            most=1,
            leads_to="dllm-capacity",
        ),
        Panel(
            "Alerts that fire",
            "Of configs/prometheus; each has a runbook in docs/operations.md.",
            Unit.NUMBER,
            (Query('count(ALERTS{alertname=~"Dllm.*", alertstate="firing"}) or vector(0)', "alerts"),),
            kind="stat",
            levels=((1, RED),),
            width=4,
        ),
    ),
)

REQUESTS = Row(
    "Requests",
    (
        Panel(
            "How requests end",
            "completed; rejected: never ran; failed; cancelled: the client went away; expired: its time "
            "was over.",
            Unit.REQUESTS_A_SECOND,
            (rate("dllm_requests_total", "outcome", 'model=~"$pool"'),),
            stacked=True,
        ),
        Panel(
            "Errors by code",
            "What clients get instead of an answer. docs/api.md has each code and its status.",
            Unit.REQUESTS_A_SECOND,
            (rate("dllm_requests_total", "code", 'code!="", model=~"$pool|other"'),),
            stacked=True,
        ),
        Panel(
            "Open requests",
            "Waiting or running, by endpoint. That of all gateways, whatever the model.",
            Unit.NUMBER,
            (total("dllm_open_requests", "endpoint"),),
            stacked=True,
        ),
    ),
)

TIMES = Row(
    "How fast",
    (
        Panel(
            "Time to first token",
            "From a request's arrival to its first committed block, the wait in the queue included.",
            Unit.SECONDS,
            quantiles(TTFT, "model", 0.5, 0.95, 0.99),
            levels=((5, RED),),
            leads_to="dllm-queue",
        ),
        Panel(
            "Time to first token, all of it",
            "How many answers began after which time. Two bands: some find a free slot, others wait.",
            Unit.SECONDS,
            (density(TTFT, "model"),),
            kind="heatmap",
        ),
        Panel(
            "Whole answers",
            "From arrival to the last byte, of answers completed. Longer answers take longer: compare with "
            "the tokens.",
            Unit.SECONDS,
            quantiles("dllm_request_seconds", "model", 0.5, 0.95, where='outcome="completed"'),
        ),
        Panel(
            "Inter-token latency",
            "As an autoregressive server would report it: quantiles weigh tokens. It hides that tokens "
            "come in blocks.",
            Unit.SECONDS,
            quantiles(ITL, "model", 0.5, 0.95, 0.99),
        ),
        Panel(
            "Between two blocks",
            "The silence that a reader sees, between one block of up to 32 tokens and the next.",
            Unit.SECONDS,
            quantiles("dllm_inter_chunk_seconds", "model", 0.5, 0.95, 0.99),
        ),
        Panel(
            "Tokens of a block",
            "Mean of the blocks as gateways relay them. Less than the model's block size: answers are "
            "short, or end in "
            "the middle of a block.",
            Unit.NUMBER,
            (ratio("dllm_chunk_tokens_sum", "dllm_chunk_tokens_count", "model"),),
        ),
        Panel(
            "Time per output token",
            "Of whole answers, the first block left out.",
            Unit.SECONDS,
            quantiles("dllm_time_per_output_token_seconds", "model", 0.5, 0.95),
        ),
        Panel(
            "Parts of the time to first token",
            "Means, which add up to the mean: admission (body, key, limits), queue, dispatch, prompt "
            "(rendering, "
            "tokenizing), engine (to the first block), relay.",
            Unit.SECONDS,
            (ratio(f"{_PARTS}_sum", f"{_PARTS}_count", "model, part"),),
            stacked=True,
            leads_to="dllm-queue",
        ),
        Panel(
            "Time to first token, by class",
            "95 % of the answers of each priority class. Flex waits for the others.",
            Unit.SECONDS,
            quantiles(TTFT, "model, tier", 0.95),
            leads_to="dllm-queue",
        ),
        Panel(
            "Inter-token latency, by mode",
            "95 % of the tokens of each decoding mode; custom: the request chose its own parameters.",
            Unit.SECONDS,
            quantiles(ITL, "model, mode", 0.95),
            leads_to="dllm-engine",
        ),
        Panel(
            "Tokens a second",
            "Of prompts, and of answers as they are relayed, by decoding mode.",
            Unit.TOKENS_A_SECOND,
            (
                rate("dllm_prompt_tokens_total", "model, mode", legend="{{model}} {{mode}} prompts"),
                rate("dllm_chunk_tokens_sum", "model, mode", legend="{{model}} {{mode}} answers"),
            ),
        ),
        Panel(
            "Memory blocks of the gateways",
            "Allocated ones. They go back to what they were once requests are over; a line that only "
            "climbs is a leak.",
            Unit.NUMBER,
            (total("dllm_allocated_blocks", "instance"),),
            width=24,
        ),
    ),
)

OBJECTIVES = Row(
    "Objectives",
    (
        Panel(
            "Budget of failures: how fast it burns",
            "1: the 0.1 % of 30 days last 30 days. At 14.4 over an hour and five minutes somebody is paged.",
            Unit.NUMBER,
            _burn("model:dllm_requests_failed", 0.001),
            levels=((1, ORANGE), (14.4, RED)),
            width=12,
        ),
        Panel(
            "Budget of late first tokens: how fast it burns",
            "1: the 1 % of 30 days last 30 days.",
            Unit.NUMBER,
            _burn("model:dllm_first_tokens_late", 0.01),
            levels=((1, ORANGE), (14.4, RED)),
            width=12,
            leads_to="dllm-queue",
        ),
    ),
)

ACCESS = Row(
    "Keys and tenants",
    (
        Panel(
            "Refused for their key",
            "Requests without a good key, or of a tenant that may not do this, by why. Only where keys are "
            "on.",
            Unit.REQUESTS_A_SECOND,
            (rate("dllm_access_refused_total", "reason"),),
            stacked=True,
            needs="keys to be on, and refused",
        ),
        Panel(
            "Tokens by tenant",
            "Prompts and answers, as limits count them; the ten largest.",
            Unit.TOKENS_A_SECOND,
            (
                Query(
                    "topk(10, sum by (tenant) (rate(dllm_tenant_tokens_total[$__rate_interval])))",
                    "{{tenant}}",
                ),
            ),
            stacked=True,
            needs="keys to be on",
        ),
        Panel(
            "API keys",
            "Known: open something. Lost: Redis does not know them any more, and a gateway that starts "
            "does not either. "
            "0 where keys are off.",
            Unit.NUMBER,
            (Query("max(dllm_access_keys)", "known"), Query("max(dllm_access_keys_lost)", "lost")),
            levels=(),
        ),
        Panel(
            "Keys last seen",
            "Since the gateway last saw that the keys it knows are those there are. After 30 s it lets "
            "nobody in.",
            Unit.SECONDS,
            (most("dllm_access_age_seconds", "instance"),),
            levels=((5, ORANGE), (30, RED)),
        ),
    ),
)

OVERVIEW = Dashboard(
    "dllm-overview",
    "dllm-stack: overview",
    "Whether users are served, how fast, and what is in their way.",
    (NOW, REQUESTS, TIMES, OBJECTIVES, ACCESS),
)
