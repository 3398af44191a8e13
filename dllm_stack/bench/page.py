"""A run as one HTML file that needs no other."""

from __future__ import annotations

import json
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

from dllm_stack.bench import table
from dllm_stack.bench.result import Result

_SLOWEST = 10
_FAILED = 50
_PARTS = ("mean", "median", "p90", "p95", "p99", "max")


def page(result: Result, plots: str) -> str:
    """Args: plots: SVG."""
    found = result.figures
    spreads = {
        "End to end": found.e2e_ms,
        "Time to first token": found.ttft_ms,
        "Time per output token": found.tpot_ms,
        "Inter-token": found.itl_ms,
        "Inter-chunk": found.blocks.chunk_gap_ms,
    }
    answered = [record for record in result.records if record.answered]
    environment = Environment(autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    template = environment.from_string((files(__package__) / "report.html.j2").read_text("utf-8"))
    return template.render(
        result=result,
        plots=plots,
        notes=list(table.notes(result)),
        parts=_PARTS,
        spreads=spreads,
        table="\n".join(table.lines(result)),
        slowest=sorted(answered, key=lambda record: -record.latency_s)[:_SLOWEST],
        failed=[record for record in result.records if not record.answered][:_FAILED],
        options=json.dumps(result.load.options, indent=1, ensure_ascii=False),
    )
