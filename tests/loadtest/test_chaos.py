"""The chaos run, short: every kind of process is killed twice under some streams."""

from __future__ import annotations

import pytest

from loadtest import chaos


@pytest.mark.timeout(300)
async def test_every_stream_survives(capfd: pytest.CaptureFixture[str]) -> None:
    survived = await chaos.run(count=120, seconds=16.0, every_s=1.6)
    assert survived, capfd.readouterr().out
