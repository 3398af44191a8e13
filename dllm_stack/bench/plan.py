"""From the options to the requests: all of it by chance, and all of it from the seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dllm_stack.bench import arrivals, datasets, tenants, traces
from dllm_stack.bench.asks import Ask, Prompt, Tenant
from dllm_stack.bench.choices import Arrivals, Dataset
from dllm_stack.bench.http import own_key
from dllm_stack.bench.problem import Problem
from dllm_stack.bench.tokenizer import Tokenizer

# One stream of chance each, so that another rate does not change the prompts.
_PROMPTS, _ARRIVALS, _TENANTS = range(3)
_COUNT = 1000  # prompts, as in bench_serving


@dataclass(frozen=True)
class Options:
    """Attributes are those of the command line."""

    dataset: Dataset = Dataset.RANDOM
    dataset_path: Path | None = None
    trace: Path | None = None
    trace_speed: float = 1.0
    tokenizer: Path | None = None
    num_prompts: int | None = None
    random_input_len: int = 1024
    random_output_len: int = 1024
    random_range_ratio: float = 0.0
    sharegpt_output_len: int | None = None
    sharegpt_context_len: int | None = None
    tokenize_prompt: bool = False
    request_rate: float = math.inf
    arrivals: Arrivals = Arrivals.POISSON
    burstiness: float = 1.0
    tenant: list[str] = field(default_factory=list)
    tenants: Path | None = None
    seed: int = 1

    def check(self) -> None:
        """
        Raises:
            Problem: two of them contradict each other.
        """
        if not 0 <= self.random_range_ratio <= 1:
            raise Problem("--random-range-ratio", "must be from 0 to 1")
        if not self.request_rate > 0:
            raise Problem("--request-rate", "must be above 0, or inf")
        if not 0 < self.burstiness < math.inf:
            raise Problem("--burstiness", "must be above 0")
        if self.burstiness != 1.0 and self.arrivals is not Arrivals.GAMMA:
            raise Problem("--burstiness", "is for --arrivals gamma")
        if not 0 < self.trace_speed < math.inf:
            raise Problem("--trace-speed", "must be above 0")
        if self.trace is not None and math.isfinite(self.request_rate):
            raise Problem("--request-rate", "a trace has its own times: leave it out, or use --trace-speed")
        if self.dataset is Dataset.SHAREGPT and self.dataset_path is None and self.trace is None:
            raise Problem("--dataset-path", "name a JSON file of conversations")
        if self.dataset is Dataset.RANDOM and self.dataset_path is not None:
            raise Problem("--dataset-path", "is for --dataset-name sharegpt")
        if self.tokenize_prompt and self.dataset is Dataset.SHAREGPT:
            raise Problem("--tokenize-prompt", "is not for conversations")
        if self.tenant and self.tenants:
            raise Problem("--tenant", "name tenants either here or in --tenants")
        if self.tokenizer is None:
            raise Problem(
                "--tokenizer",
                "name a folder with the model's tokenizer.json; the demo model's is models/demo/checkpoint",
            )


@dataclass(frozen=True)
class Plan:
    """Attributes: rate, arrivals, dataset: in words, for the result."""

    asks: list[Ask]
    tokenizer: Tokenizer
    rate: str
    arrivals: str | None
    dataset: str


def make(options: Options) -> Plan:
    """
    Raises:
        Problem
    """
    options.check()
    assert options.tokenizer is not None
    tokenizer = Tokenizer(options.tokenizer)
    senders = _senders(options)
    if options.trace is not None:
        return Plan(
            _replayed(options, options.trace, tokenizer, senders), tokenizer, "trace", "trace", "trace"
        )
    prompts = _prompts(options, tokenizer)
    due: list[float | None] = [None] * len(prompts)
    open_loop = math.isfinite(options.request_rate)
    if open_loop:
        random = np.random.default_rng([options.seed, _ARRIVALS])
        due = arrivals.times(
            len(prompts), options.request_rate, options.arrivals, options.burstiness, random
        ).tolist()
    drawn = _drawn(options, senders, len(prompts))
    asks = [
        Ask(number, prompt, tenant, due_s)
        for number, (prompt, tenant, due_s) in enumerate(zip(prompts, drawn, due, strict=True))
    ]
    kind = options.arrivals.value if open_loop else None
    return Plan(asks, tokenizer, str(options.request_rate), kind, options.dataset.value)


def _prompts(options: Options, tokenizer: Tokenizer) -> list[Prompt]:
    random = np.random.default_rng([options.seed, _PROMPTS])
    count = options.num_prompts or _COUNT
    if options.dataset is Dataset.SHAREGPT:
        assert options.dataset_path is not None
        return datasets.conversations(
            options.dataset_path,
            tokenizer,
            count,
            options.sharegpt_output_len,
            options.sharegpt_context_len,
            random,
        )
    return datasets.random_words(
        tokenizer,
        count,
        options.random_input_len,
        options.random_output_len,
        options.random_range_ratio,
        random,
        ids=options.tokenize_prompt,
    )


def _replayed(options: Options, file: Path, tokenizer: Tokenizer, senders: list[Tenant]) -> list[Ask]:
    lines = traces.lines(file, options.num_prompts)
    by_name = {tenant.name: tenant for tenant in senders}
    drawn = _drawn(options, senders, len(lines))
    asks = []
    for number, (line, tenant) in enumerate(zip(lines, drawn, strict=True)):
        if line.tenant is not None:
            tenant = by_name.get(line.tenant) or Tenant(line.tenant, headers={"X-Tenant-ID": line.tenant})
        due_s = (line.timestamp - lines[0].timestamp) / 1000 / options.trace_speed
        prompt = traces.prompt(line, number, tokenizer, options.seed, ids=options.tokenize_prompt)
        asks.append(Ask(number, prompt, tenant, due_s))
    return asks


def _senders(options: Options) -> list[Tenant]:
    if options.tenants is not None:
        return tenants.read(options.tenants)
    return tenants.shares(options.tenant) if options.tenant else [Tenant(headers=own_key())]


def _drawn(options: Options, senders: list[Tenant], count: int) -> list[Tenant]:
    return tenants.draw(senders, count, np.random.default_rng([options.seed, _TENANTS]))


def described(options: Options) -> dict[str, Any]:
    """For the result's file."""
    return {
        name: str(value) if isinstance(value, Path) or value == math.inf else value
        for name, value in vars(options).items()
        if value is not None
    }
