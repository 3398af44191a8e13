"""One SGLang server as a group of processes: started, watched, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil
import structlog

from worker.engine.command import EngineCommand

log = structlog.get_logger()

_POLL_S = 0.2
_KILL_S = 10.0  # a process that holds a GPU takes a while to be gone
_SHARED_MEMORY = "/dev/shm"
# Python's semaphores, Python's shared memory, SGLang's, torch's, NCCL's between the GPUs of one engine.
# Others may keep other things there: checkpoints.
_OF_ENGINES = ("sem.mp-", "psm_", "sgl", "torch_", "nccl-")
_LOG_BYTES = 16 << 20
_TAIL_BYTES = 16 << 10

# Becomes the engine, with a child that waits on a pipe from the worker. The pipe closes when the worker
# dies, however it dies, and the child then kills the engine's process group. A parent-death signal would
# not do: SGLang's own children are tied to their parent only after a long import.
_TIED_TO_WORKER = 'exec 3<&0; { read -r _ <&3; kill -KILL 0; } & exec 3<&-; exec "$@" </dev/null'


class EngineProcess:
    """A running `sglang.launch_server`, which has its schedulers and a detokenizer as children.

    Its output goes to `engine.log` in the run folder; when that is 16 MiB long it becomes
    `engine.log.old`, and a new one begins.
    """

    def __init__(self, process: asyncio.subprocess.Process, url: str, log: Path) -> None:
        self.url = url
        self._process = process
        self._log = log
        log.touch()
        self._log_writer = asyncio.create_task(self._write_log())
        self._children: list[psutil.Process] = []
        self._shared: set[Path] = set()

    @classmethod
    async def start(cls, command: EngineCommand, url: str, run_dir: Path) -> Self:
        """Starts the engine in a process group of its own. Should this worker die, so does the engine.

        Args:
            url: where the command makes it listen.
            run_dir: an existing folder, for the log and for what the engine leaves behind.
        """
        command.write_files()
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", _TIED_TO_WORKER, "engine", *command.argv),
            env=_environment(run_dir) | command.env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        return cls(process, url, run_dir / "engine.log")

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch_children(self) -> None:
        """From now on, the end of a child is the end of the engine. To be called when it is loaded.

        SGLang sees to that itself for its schedulers; without its detokenizer it would answer nothing.
        """
        with suppress(psutil.NoSuchProcess):  # `ended` will tell
            self._children = psutil.Process(self.pid).children()
        self._shared = self._shared_memory()  # in case that it ends before `stop`

    async def ended(self) -> str:
        """Returns, with the reason, once the engine or one of its children has ended."""
        while self._process.returncode is None:
            for child in self._children:
                if not _runs(child):
                    return f"lost its process {child.pid}"
            await asyncio.sleep(_POLL_S)
        return f"ended with status {self._process.returncode}"

    async def stop(self) -> None:
        """Kills the engine. Returns once all its processes are gone, and the memory that they shared.

        SIGTERM would gain nothing: SGLang (0.5.23) takes 8 to 10 s to end though no request runs, and even
        then leaves some of its shared memory.
        """
        shared = self._shared | self._shared_memory()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if not await _until(lambda: self._process.returncode is not None and not self._members(), _KILL_S):
            log.error("engine survives SIGKILL", pid=self.pid, within_s=_KILL_S)
        self._bury()
        _remove(shared)
        await asyncio.wait({self._log_writer}, timeout=1)
        self._log_writer.cancel()

    def tail(self, lines: int = 30) -> str:
        """The end of its output."""
        with self._log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])

    def _members(self) -> list[psutil.Process]:
        """The processes of its group, which outlives its leader."""
        return [each for each in psutil.process_iter() if _group(each) == self.pid and _runs(each)]

    def _bury(self) -> None:
        """What the engine has left behind is this worker's child now, if that is process 1 of a container: no
        one else would ever wait for it, and a pod may have only so many processes, dead ones included."""
        if self._process.returncode is None:  # its end is for asyncio to hear
            return
        with suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass

    def _shared_memory(self) -> set[Path]:
        """The files through which its processes share memory, which outlive a kill."""
        mapped = {inode for each in self._members() for inode in _mapped(each)}
        if not mapped:
            return set()
        with os.scandir(_SHARED_MEMORY) as files:
            ours = [file for file in files if file.name.startswith(_OF_ENGINES) and file.inode() in mapped]
        return {Path(file.path) for file in ours}

    async def _write_log(self) -> None:
        assert self._process.stdout is not None
        file = self._log.open("ab", buffering=0)
        try:
            while output := await self._process.stdout.read(1 << 16):
                with suppress(OSError):  # unread, the engine would wait; a full disk shall not make it hang
                    file.write(output)
                if file.tell() > _LOG_BYTES:
                    file.close()
                    self._log.rename(f"{self._log}.old")
                    file = self._log.open("ab", buffering=0)
        finally:
            file.close()


def _environment(run_dir: Path) -> dict[str, str]:
    # SGLang leaves sockets in its temporary folder, so it gets one that disappears; what torch compiles
    # is worth keeping, and would have gone to the same place.
    compiled = {"TORCHINDUCTOR_CACHE_DIR": f"{tempfile.gettempdir()}/torchinductor_{os.getuid()}"}
    return compiled | os.environ | {"TMPDIR": str(run_dir)}


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _group(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except (ProcessLookupError, PermissionError):
        return None


def _mapped(process: psutil.Process) -> list[int]:
    """Inodes of the shared memory in its address space. A semaphore is mapped under another name."""
    try:
        regions = Path(f"/proc/{process.pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [int(region.split()[4]) for region in regions if _SHARED_MEMORY in region]


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


async def _until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Returns whether it came true in time."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if condition():
            return True
        await asyncio.sleep(_POLL_S / 4)
    return False
