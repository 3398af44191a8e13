"""What options choose among."""

from __future__ import annotations

from enum import StrEnum


class Backend(StrEnum):
    """Endpoints, each also by bench_serving's name."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    GENERATE = "generate"
    SGLANG_CHAT = "sglang-oai-chat"
    SGLANG_COMPLETIONS = "sglang-oai"
    SGLANG_GENERATE = "sglang"


class Dataset(StrEnum):
    RANDOM = "random"
    SHAREGPT = "sharegpt"


class Arrivals(StrEnum):
    """Gaps by chance, each independent of the others; all the same; in bursts."""

    POISSON = "poisson"
    CONSTANT = "constant"
    GAMMA = "gamma"
