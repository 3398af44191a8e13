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
    structlog.get_logger().exception("ours failed")
    logging.getLogger("aiohttp").exception("%s failed", "theirs")
logging.getLogger("aiohttp").info("not shown")
structlog.contextvars.bind_contextvars(request="1", trace="2")
try:
    try:
        int("a secret prompt")
    except ValueError as error:
        raise RuntimeError("of a secret prompt") from error
except RuntimeError:
    structlog.get_logger().exception("request failed")
    logging.getLogger("aiohttp").exception("its library failed")
"""


def logged(log_format: str) -> list[str]:
    command = [sys.executable, "-c", _PROGRAM, log_format]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()


def test_as_json() -> None:
    ours, theirs, *_ = (json.loads(line) for line in logged("json"))
    assert ours["event"] == "ours failed"
    assert (theirs["event"], theirs["logger"]) == ("theirs failed", "aiohttp")
    for line in (ours, theirs):
        assert (line["service"], line["level"]) == ("gateway", "error")
        assert "ZeroDivisionError: division by zero" in line["exception"]
        assert line["timestamp"]


def test_what_a_request_has_caused() -> None:
    lines = logged("json")
    of_request = [json.loads(line) for line in lines[2:]]
    assert [line["event"] for line in of_request] == ["request failed", "its library failed"]
    for line in of_request:
        assert (line["request"], line["trace"]) == ("1", "2")
        assert line["exception"].splitlines()[-1] == "RuntimeError"
        assert "ValueError" in line["exception"]
        assert 'File "<string>", line' in line["exception"]
    assert "a secret prompt" not in "".join(lines)


@pytest.mark.parametrize("event", ["ours failed", "theirs failed"])
def test_for_a_console(event: str) -> None:
    [line] = [line for line in logged("console") if event in line]
    assert "service=gateway" in line
