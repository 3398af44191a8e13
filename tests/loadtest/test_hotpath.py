"""What the profile of the hot path says of a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from loadtest.hotpath.concerns import ELSE, by_concern, by_function, concern_of, with_callees
from loadtest.hotpath.sampled import Stack

SPIN = """
import os, signal, sys, time
from pathlib import Path
from loadtest.hotpath.sampled import Sampler

def spin(until_s):
    while time.process_time() < until_s:
        pass

Sampler(Path(sys.argv[1])).install()
spin(time.process_time() + 0.1)
os.kill(os.getpid(), signal.SIGUSR1)
spin(time.process_time() + 0.5)
os.kill(os.getpid(), signal.SIGUSR2)
"""


def test_a_sampler_sees_what_takes_cpu_time(tmp_path: Path) -> None:
    file = tmp_path / "samples"
    subprocess.run([sys.executable, "-c", SPIN, str(file)], check=True)
    samples = msgspec.json.decode(file.read_bytes(), type=list[tuple[Stack, int]])
    (most, count), *_ = by_function(samples).most_common()
    assert most == "<string>:spin"
    assert count > 0
    assert with_callees(samples)["<string>:<module>"] >= count


@pytest.mark.parametrize(
    ("files", "concern"),
    [
        (["/lib/redis/connection.py", "/x/gateway/feed.py"], "Redis protocol and connections"),
        (["/lib/contextlib.py", "/x/dllm_stack/redis.py"], "Redis protocol and connections"),
        (["/lib/uuid.py", "/x/gateway/http/request_id.py"], "HTTP routing and middleware"),
        (["/lib/asyncio/timeouts.py", "/x/worker/run.py"], "asyncio"),
        (["/x/gateway/pace.py", "/x/gateway/answer.py"], "metrics"),
        (["/x/worker/run.py", "/lib/asyncio/events.py"], "the request's own course"),
        (["/lib/runpy.py"], ELSE),
    ],
)
def test_a_sample_belongs_to_the_innermost_part_that_is_known(files: list[str], concern: str) -> None:
    stack = tuple((file, "function") for file in files)
    assert concern_of(stack) == concern
    assert by_concern([(stack, 3), (stack, 2)]) == {concern: 5}
