"""What a service and its libraries log are lines of one shape."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# In a process of its own, as it sets up all logging there.
_PROGRAM = """
import logging, sys, structlog
from dllm_stack import log
from dllm_stack.settings import Settings
log.configure(Settings(log_format=sys.argv[1]), "gateway")
try:
    1 / 0
except ZeroDivisionError:
    structlog.get_logger().exception("ours failed", request="1")
    logging.getLogger("aiohttp").exception("%s failed", "theirs")
logging.getLogger("aiohttp").info("not shown")
"""


def logged(log_format: str) -> list[str]:
    command = [sys.executable, "-c", _PROGRAM, log_format]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()


def test_as_json() -> None:
    ours, theirs = (json.loads(line) for line in logged("json"))
    assert (ours["event"], ours["request"]) == ("ours failed", "1")
    assert (theirs["event"], theirs["logger"]) == ("theirs failed", "aiohttp")
    for line in (ours, theirs):
        assert (line["service"], line["level"]) == ("gateway", "error")
        assert "ZeroDivisionError" in line["exception"]
        assert line["timestamp"]


@pytest.mark.parametrize("event", ["ours failed", "theirs failed"])
def test_for_a_console(event: str) -> None:
    [line] = [line for line in logged("console") if event in line]
    assert "service=gateway" in line
