"""The recording and alert rules of configs/prometheus."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dllm_stack.settings import CONFIGS

FOLDER = CONFIGS / "prometheus"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_TIME = re.compile(r"(?<![\w.])(\d+)([smhd])\b")


class Rule(NamedTuple):
    """
    Attributes:
        name: of the alert, or of the series that is recorded.
    """

    file: str
    name: str
    is_alert: bool
    expr: str
    annotations: dict[str, str]


def rule_files() -> list[Path]:
    """In the order in which Prometheus reads them."""
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    return [FOLDER / name for name in config["rule_files"]]


def rules() -> list[Rule]:
    return [
        Rule(
            file.name,
            rule.get("alert") or rule["record"],
            "alert" in rule,
            rule["expr"],
            rule.get("annotations", {}),
        )
        for file in rule_files()
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
    ]


def hurry(text: str, factor: int) -> str:
    """A file of rules whose windows and waits are shorter by this factor, 2 s at least.

    Names of series stay, and so does what is compared: only the time until something is noticed shrinks.
    """
    content = yaml.safe_load(text)
    for group in content["groups"]:
        for rule in group["rules"]:
            rule |= {name: _hurried(rule[name], factor) for name in ("expr", "for") if name in rule}
    hurried: str = yaml.safe_dump(content, sort_keys=False, width=1000)
    return hurried


def _hurried(text: str, factor: int) -> Any:
    def shorter(match: re.Match[str]) -> str:
        return f"{max(int(match[1]) * _SECONDS[match[2]] // factor, 2)}s"

    return _TIME.sub(shorter, text)
