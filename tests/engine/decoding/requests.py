"""Ways of asking for the same thing: as a request says it, and prompts to ask it with."""

from __future__ import annotations

import random

from dllm_stack.decoding import Decision, EngineOptions, Sampling

DECISIONS = [
    Decision(algorithm="LowConfidence", parameters={"threshold": 0.3}),
    Decision(algorithm="LowConfidence"),
    Decision(algorithm="LowConfidence", parameters={"threshold": 0.95, "max_steps": 3}),
    Decision(algorithm="JointThreshold", parameters={"threshold": 0.3, "edit_threshold": 0.2}),
    Decision(algorithm="JointThreshold", parameters={"threshold": 0.1, "penalty_lambda": 3.0}),
    Decision(algorithm="JointThreshold", parameters={"threshold": 0.05, "max_post_edit_steps": 2}),
    Decision(algorithm="JointThreshold", parameters={"threshold": 0.9, "max_steps": 5}),
    Decision(algorithm="EntropyBounded", parameters={"entropy_bound": 2.0}),
    Decision(algorithm="EntropyBounded", parameters={"entropy_bound": 0.0}),
    Decision(algorithm="Hierarchical", parameters={"threshold": 0.5, "low_threshold": 0.2}),
    Decision(algorithm="Credit", parameters={"threshold": 0.5}),
    Decision(algorithm="Credit", parameters={"threshold": 0.3, "credit_weight": 3.0, "max_steps": 4}),
]
SAMPLED = [
    Sampling(temperature=1.0, seed=7),
    Sampling(temperature=0.7, top_p=0.8, seed=-3),
    Sampling(temperature=1.5, top_k=5, seed=2**60),
]
MANY = [
    *(EngineOptions(decision=decision) for decision in DECISIONS),
    *(EngineOptions(decision=DECISIONS[1], sampling=sampling) for sampling in SAMPLED),
]


def prompt(seed: int, length: int) -> list[int]:
    """Token ids of the tiny checkpoint, none of them special."""
    return random.Random(seed).choices(range(5, 250), k=length)
