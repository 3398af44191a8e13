"""The demo model's scores added up, and held against its targets."""

from __future__ import annotations

from typing import Any

import pytest

from loadtest import demo_report
from loadtest.demo_report import DEFAULT, Served
from models.demo.evaluate import Repair


def score(skill: str, exact: int, **changes: Any) -> Served:
    """Of ten items."""
    values: dict[str, Any] = {
        "algorithm": DEFAULT,
        "language": "en",
        "items": 10,
        "tokens": 300,
        "forwards": 60,
        "seconds": 2.0,
        "unseen_wordings": False,
    }
    return Served(skill=skill, exact=exact, **(values | changes))


def test_scores_are_added_up_before_they_are_divided() -> None:
    total = demo_report.total(
        [score("counting", 10), score("counting", 4, items=30, tokens=100, seconds=6.0)]
    )
    assert (total.exact, total.tokens_per_s) == (14 / 40, 400 / 8)
    assert total.tokens_per_forward == pytest.approx(400 / 120)


def test_a_skill_meets_its_target_in_both_languages_together() -> None:
    scores = [score("lists", 10), score("lists", 8, language="zh")]
    (target,) = demo_report.targets(scores, [])
    assert (target.found, target.least, target.met) == (0.9, 0.9, True)
    (target,) = demo_report.targets([*scores, score("lists", 8, language="fr")], [])
    assert not target.met


def test_unseen_wordings_and_other_ways_of_decoding_have_no_target_for_accuracy() -> None:
    others = [score("counting", 0, unseen_wordings=True), score("counting", 0, algorithm="LowConfidence 0.5")]
    assert demo_report.targets(others, []) == []


def test_the_targets_for_speed_and_repairs() -> None:
    rate, repaired = demo_report.targets(
        [score("counting", 10, algorithm="LowConfidence 0.9", forwards=100)],
        [Repair("lists", 10, 8), Repair("facts", 10, 9)],
    )
    assert (rate.found, rate.met) == (3.0, False)
    assert (repaired.found, repaired.met) == (0.85, True)


def test_the_summary_says_what_a_way_of_decoding_costs(capsys: pytest.CaptureFixture[str]) -> None:
    scores = [score("lists", 9), score("lists", 8, algorithm="LowConfidence 0.5", forwards=30)]
    demo_report.print_summary(scores, [], {"Hi": "Hello."}, demo_report.targets(scores, []))
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["LowConfidence", "0.95", "90.0%", "0.0%", "5.0", "150"] in printed
    assert ["LowConfidence", "0.5", "80.0%", "10.0%", "10.0", "150"] in printed
    assert [">", "Hi"] in printed
    assert printed[-1][0] == "met"
