"""The algorithms of an engine: those that come with it, and the user's own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from typing import Any

from dllm_stack.decoding import ALGORITHMS, Decision, EngineOptions, check_own_parameters, check_parameters
from worker.dllm.algorithms.algorithm import Algorithm
from worker.dllm.algorithms.credit import Credit
from worker.dllm.algorithms.entropy_bounded import EntropyBounded
from worker.dllm.algorithms.hierarchical import Hierarchical
from worker.dllm.algorithms.joint_threshold import JointThreshold
from worker.dllm.algorithms.low_confidence import LowConfidence

_BUILT_IN: dict[str, type[Algorithm]] = {
    algorithm.__name__: algorithm
    for algorithm in (LowConfidence, JointThreshold, EntropyBounded, Hierarchical, Credit)
}


class AlgorithmTable:
    def __init__(self, own: Mapping[str, str]) -> None:
        """
        Args:
            own: a Python file for each name; it defines one subclass of Algorithm.

        Raises:
            ValueError: a file cannot be used, and why.
        """
        self._algorithms = {name: algorithm() for name, algorithm in _BUILT_IN.items()}
        for name, path in own.items():
            self._algorithms[name] = _load(name, path)

    def __getitem__(self, name: str) -> Algorithm:
        return self._algorithms[name]

    def problem(self, options: EngineOptions, default: Decision) -> str | None:
        """Why a request cannot be decoded so, beginning with the field's name; None: it can."""
        decision = options.decision or default
        try:
            self.check(decision)
        except ValueError as error:
            return str(error)
        if options.sampling.temperature and not self._algorithms[decision.algorithm].samples:
            return f"temperature: {decision.algorithm} takes the most probable token, it cannot sample"
        return None

    def check(self, decision: Decision) -> None:
        """
        Raises:
            ValueError: a sentence that begins with the name of the field that is wrong.
        """
        algorithm = self._algorithms.get(decision.algorithm)
        if algorithm is None:
            known = ", ".join(sorted(self._algorithms))
            raise ValueError(f"algorithm {decision.algorithm[:100]!r} is not known: choose {known}")
        if decision.algorithm in ALGORITHMS:
            check_parameters(decision.algorithm, decision.parameters)
        else:
            check_own_parameters(decision.parameters)
            algorithm.check(decision.parameters)


def _load(name: str, path: str) -> Algorithm:
    if name in _BUILT_IN:
        raise ValueError(f"algorithms: {name} is the name of a built-in algorithm")
    spec = importlib.util.spec_from_file_location(f"dllm_algorithm_{name}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"algorithms: {name}: {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks for its module
    try:
        spec.loader.exec_module(module)
        found = [value for value in vars(module).values() if _is_defined_in(value, module.__name__)]
        algorithms: list[Algorithm] = [value() for value in found]
    except Exception as error:
        raise ValueError(f"algorithms: {name}: {path}: {error!r}") from error
    if len(algorithms) != 1:
        raise ValueError(f"algorithms: {name}: {path} defines {len(found)} subclasses of Algorithm, not one")
    return algorithms[0]


def _is_defined_in(value: Any, module: str) -> bool:
    return isinstance(value, type) and issubclass(value, Algorithm) and value.__module__ == module
