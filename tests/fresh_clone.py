"""A newcomer's first minutes, by a program: clone, `make up`, paste both snippets, Ctrl-C.

Needs nothing but Python, git and make; run by `make show-fresh-clone`. Not a test of the suite,
because it installs everything anew.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

READY = "Ctrl-C stops everything"
START_S = 1500
ROOT = Path(__file__).resolve().parent.parent


def snippets(output: str) -> list[str]:
    """The two pieces that `up` offers for pasting, each between a line that introduces it and the next."""
    _, rest = output.split("Ask it with curl:", 1)
    curl, rest = rest.split("or with the OpenAI SDK:", 1)
    sdk, _ = rest.split("A first answer", 1)
    return [curl.strip(), sdk.strip() + "\n"]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fresh-clone-") as folder:
        clone = Path(folder) / "dllm-stack"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        output_file = Path(folder) / "up.out"
        began = time.monotonic()
        with output_file.open("wb") as output:
            up = subprocess.Popen(
                ["make", "up", f"PYTHON={sys.executable}"],
                cwd=clone,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Deaf to Ctrl-C, if this process is: a shell's background is.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        try:
            while READY not in (text := output_file.read_text(errors="replace")):
                if up.poll() is not None or time.monotonic() - began > START_S:
                    sys.exit(f"make up did not answer:\n{text}")
                time.sleep(0.5)
            print(text)
            print(f"--- make up answered after {time.monotonic() - began:.0f} s, installation included\n")
            for snippet in snippets(text):
                paste(snippet, clone)
            pids = descendants(up.pid)
        finally:
            if up.poll() is None:
                os.killpg(up.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
            status = up.wait(timeout=90)
        left = [pid for pid in pids if runs(pid)]
        print(f"--- Ctrl-C: make ended with {status}; {len(pids)} processes before, {len(left)} left")
        assert not left


def paste(snippet: str, folder: Path) -> None:
    run = subprocess.run(["bash", "-c", snippet], cwd=folder, capture_output=True, text=True, check=True)
    assert run.stdout.strip(), "a snippet printed nothing"
    assert '"error"' not in run.stdout, run.stdout
    print(f"--- pasted:\n{snippet}\n--- printed:\n{run.stdout}")


def runs(pid: int) -> bool:
    """A process that init has only not yet reaped does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> list[int]:
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


if __name__ == "__main__":
    main()
