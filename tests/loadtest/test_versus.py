"""The comparison with other gateways: whole, on this stack and a bare simulator, with no peer installed."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from loadtest import peers
from loadtest.versus import report, trial
from loadtest.versus.__main__ import compare_speed
from loadtest.versus.chat import text
from loadtest.versus.connection import Answer
from loadtest.versus.herd import Herd, herd
from loadtest.versus.killed import Killed, killed
from loadtest.versus.overload import Overload, overload
from loadtest.versus.results import Results, Trials
from loadtest.versus.speed import PACED_STREAM, Measured, Pace, Workload
from loadtest.versus.stands import DIRECT, OURS, engines, stand
from loadtest.versus.targets import targets

SMALL = Pace(
    "a small one",
    ["--slots", "16", "--block-ms", "1", "--prefill-ms", "0"],
    [
        Workload("JSON c=4", stream=False, clients=4, quick_ack=False, seconds=0.1),
        Workload("stream c=4", stream=True, clients=4, quick_ack=True, seconds=0.1),
    ],
)


async def test_gateways_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "ENVIRONMENT", tmp_path)
    results = Results()
    await compare_speed(results, [DIRECT, "nginx", OURS], SMALL, rounds=1, warm_up_s=0.0)
    assert results.skipped == {"nginx": "nginx is not installed"}
    assert "skipped: nginx is not installed" in capsys.readouterr().out
    assert {name for name, _ in results.speed} == {DIRECT, OURS}
    for measured in results.speed.values():
        assert measured.wrong == 0
        assert measured.answers >= 4
        assert measured.ms("ttft_s", 50) <= measured.ms("total_s", 99)
    assert set(results.speed[OURS, "stream c=4"].cpu_s) == {"gateway", "router", "worker", "valkey"}
    assert results.memory[OURS] > 0
    assert "worker" in report.speed(results, "stream c=4")
    assert report.summary(results, SMALL.workloads).count("/s") == 4
    assert json.loads(json.dumps(results.document(), allow_nan=False))["speed"]["JSON c=4"][DIRECT]["answers"]


async def test_trials_of_no_gateway_at_all() -> None:
    async with (
        engines(1, ["--slots", "8", "--block-ms", "20", "--prefill-ms", "0"]) as behind,
        stand(DIRECT, behind.urls) as direct,
        aiohttp.ClientSession() as http,
    ):
        left = await herd(direct.url, behind.urls, stay_s=0.1, within_s=60.0)
        assert left.freed_s < float("inf")
        assert left.right == left.asked > 0
        flooded = await overload(direct.url, seconds=0.7, last_s=0.0)
        assert len(flooded.ttft_s) == 2
        assert await trial.falls(http, behind.urls, 0) < float("inf")
        # An engine that nobody stands in for: its death is seen.
        lost = await killed(direct.url, behind.members[0], seconds=0.0, kill_after_s=0.1, down_s=0.1)
        assert sum(lost.lost) > 0


def test_only_a_whole_answer_counts() -> None:
    message = b'{"choices": [{"message": {"content": "x"}}]}'
    assert text(Answer(200, message, True, 0.0, 1.0, 2.0), stream=False) == "x"
    half = b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": null}]}\n\ndata: [DONE]\n\n'
    error = b'data: {"error": {"message": "gone"}}\n\ndata: [DONE]\n\n'
    for body, whole in ((half, True), (error, True), (half, False)):
        assert text(Answer(200, body, whole, 0.0, 1.0, 2.0), stream=True) is None
    assert text(Answer(503, b"{}", True, 0.0, 1.0, 2.0), stream=False) is None


def test_targets_are_met_missed_or_not_measured() -> None:
    results = Results()
    assert {target.met for target in targets(results)} == {None}
    for name, rate, ttft_s in (
        (DIRECT, 900.0, 0.010),
        ("sglang-router", 300.0, 0.011),
        (OURS, 130.0, 0.0125),
    ):
        for workload in ("stream c=1", "JSON c=64", PACED_STREAM):
            results.speed[name, workload] = Measured([ttft_s] * 3, [ttft_s] * 3, [rate], answers=3)
    for name, ttft, lost in (("smg", 5.0, (3, 0)), (OURS, 0.5, (0, 0))):
        gone = Herd(0.1, 0, 4, 4)
        results.trials[name] = Trials(gone, Overload([ttft] * 4, 0, 50), Killed((20, 20), lost, 2.0))
    assert [target.met for target in targets(results)] == [True, False, None, True, True, True]
    results.versions = {"smg": "1", OURS: "2"}
    assert "3 of 20" in report.trials(results)


@pytest.mark.parametrize(
    ("ours", "met", "word"),
    [
        ([101.0, 103.0, 99.0], True, "met  "),
        ([99.0, 97.0, 101.0], True, "met within the spread"),
        ([70.0, 71.0, 130.0], False, "MISSED"),  # one round of luck
    ],
)
def test_a_target_missed_by_less_than_rounds_differ_is_told_apart(
    ours: list[float], met: bool, word: str
) -> None:
    results = Results()
    # The machine was slower in the second round, for both.
    for name, rates in ((OURS, ours), ("sglang-router", [100.0] * 3)):
        slowed = [rate * speed for rate, speed in zip(rates, (1.0, 0.5, 1.0), strict=True)]
        results.speed[name, PACED_STREAM] = Measured([0.1], [0.1], slowed, answers=3)
    (target,) = (each for each in targets(results) if PACED_STREAM in each.name)
    assert target.met == met
    assert str(target).startswith(word)
    assert "spread 0.0" in str(target)
