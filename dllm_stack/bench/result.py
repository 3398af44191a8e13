"""A run as it is saved."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dllm_stack.bench.cost import Cost
from dllm_stack.bench.metrics import Figures, figures
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.records import Record

FORMAT = "dllm-stack bench 1"


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What was to be sent.

    Attributes:
        rate: of requests in words: "inf", "4.0", "trace".
        arrivals: "poisson" and so on; None in a closed loop.
        options: all of the command's, by name.
    """

    backend: str
    url: str
    model: str
    dataset: str
    requests: int
    rate: str
    concurrency: int | None
    seed: int
    arrivals: str | None = None
    options: dict[str, Any] = {}


class Result(msgspec.Struct, kw_only=True):
    """
    Attributes:
        began: when, in UTC.
        groups: figures by "tenant model", where there are several.
    """

    format: str = FORMAT
    began: str
    version: str
    machine: str
    load: Load
    figures: Figures
    groups: dict[str, Figures] = {}
    cost: Cost
    accept_length: float | None = None
    interrupted: bool = False
    records: list[Record] = []


def grouped(records: Sequence[Record], duration_s: float) -> dict[str, Figures]:
    """By tenant and model."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(f"{record.tenant} {record.model}".strip(), []).append(record)
    return {name: figures(of_it, duration_s) for name, of_it in sorted(groups.items())}


def as_bench_serving(result: Result) -> dict[str, Any]:
    """The figures by the names that they have in bench_serving's file, for scripts that read those."""
    found, load = result.figures, result.load
    named: dict[str, Any] = {
        "backend": load.backend,
        "dataset_name": load.dataset,
        "request_rate": load.rate,
        "max_concurrency": load.concurrency,
        "duration": found.duration_s,
        "completed": found.completed,
        "total_input_tokens": found.input_tokens,
        "total_input_text_tokens": found.input_tokens,
        "total_output_tokens": found.output_tokens,
        "total_output_tokens_retokenized": found.retokenized,
        "request_throughput": found.request_rate,
        "input_throughput": found.input_rate,
        "output_throughput": found.output_rate,
        "total_throughput": found.total_rate,
        "concurrency": found.concurrency,
        "accept_length": result.accept_length,
        "max_output_tokens_per_s": found.peak_output_rate,
        "max_concurrent_requests": found.peak_concurrency,
    }
    spreads = {
        "e2e_latency_ms": found.e2e_ms,
        "ttft_ms": found.ttft_ms,
        "tpot_ms": found.tpot_ms,
        "itl_ms": found.itl_ms,
    }
    for name, spread in spreads.items():
        for part in ("mean", "median", "std", "p90", "p95", "p99"):
            named[f"{part}_{name}"] = None if spread is None else getattr(spread, part)
    return named


def save_json(result: Result, file: Path) -> None:
    """Texts of answers are left out."""
    for record in result.records:
        record.text = ""
    written = {**msgspec.to_builtins(result), "bench_serving": as_bench_serving(result)}
    file.write_bytes(msgspec.json.format(msgspec.json.encode(written), indent=1))


def load(file: Path, option: str) -> Result:
    """
    Raises:
        Problem
    """
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Result)
    except OSError as error:
        raise Problem(option, f"{file}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise Problem(option, f"{file} is no result of dllm-stack bench: {error}") from None
    if found.format != FORMAT:
        raise Problem(option, f"{file} has the format {found.format!r}, and this is {FORMAT!r}")
    return found


_COLUMNS: dict[str, Callable[[Record], object]] = {
    "number": lambda record: record.number,
    "tenant": lambda record: record.tenant,
    "model": lambda record: record.model,
    "due_s": lambda record: record.due_s,
    "sent_s": lambda record: record.sent_s,
    "ttft_ms": lambda record: _ms(record.ttft_s),
    "e2e_ms": lambda record: _ms(record.latency_s),
    "prompt_tokens": lambda record: record.prompt_tokens,
    "local_prompt_tokens": lambda record: record.local_prompt_tokens,
    "asked_tokens": lambda record: record.asked_tokens,
    "output_tokens": lambda record: record.output_tokens,
    "retokenized": lambda record: record.retokenized,
    "chunks": lambda record: len(record.chunks),
    "forwards": lambda record: record.blocks and record.blocks.forwards,
    "finish": lambda record: record.finish,
    "error": lambda record: record.error,
    "detail": lambda record: record.detail,
}


def save_csv(records: Sequence[Record], file: Path) -> None:
    """A request a line."""
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(_COLUMNS)
        writer.writerows([column(record) for column in _COLUMNS.values()] for record in records)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
