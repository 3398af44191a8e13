"""What services leave to the collector of garbage."""

from __future__ import annotations

import subprocess
import sys

SERVE = """
import gc
from dllm_stack.settings import Settings
from gateway import main

def serve(server, sockets):
    print(gc.get_freeze_count(), sum(gc.get_count()), len(gc.get_objects()))

main.Server.run = serve
main.run(Settings.model_validate({"gateway": {"port": 0}}))
"""


def test_a_gateway_has_nothing_to_be_looked_through_when_it_begins_to_serve() -> None:
    told = subprocess.run([sys.executable, "-c", SERVE], capture_output=True, text=True, check=True).stdout
    kept, _, left = map(int, told.split())
    assert kept > 100 * left
