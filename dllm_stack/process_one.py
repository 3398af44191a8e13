"""To be imported before anything slow is: from then on SIGTERM ends process 1 of a container too.

A signal for which process 1 has no handler is lost, and its pod is deleted only at the end of its grace. The
services have their own handlers once they run.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(0)  # at once: an orderly exit would wait for threads, and nothing is there yet to be tidied up


if os.getpid() == 1:
    signal.signal(signal.SIGTERM, _leave)
