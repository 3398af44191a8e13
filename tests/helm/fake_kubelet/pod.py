"""One pod's life: init containers, containers with their probes and restarts, and its end."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helm.fake_kubelet.container import Command, Container
from tests.helm.fake_kubelet.environment import ManifestError, Object
from tests.helm.fake_kubelet.node import Child, Node
from tests.helm.fake_kubelet.probes import Handler, Probe

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 300.0  # of a crash loop: 10 s in a kubelet
_LAST_GRACE_S = 2.0  # what is left to a container whose preStop hook took all of the grace
_DEFAULT_GRACE_S = 30


@dataclass
class Place:
    """What a container needs of the node, beside its manifest."""

    command: Command
    root: dict[str, Any]
    log: Path


@dataclass(frozen=True)
class Event:
    at: float  # time.monotonic
    container: str
    what: str


@dataclass
class _Kept:
    """A container of the manifest, over its restarts."""

    manifest: Object
    place: Place
    running: Container | None = None
    restarts: int = 0
    statuses: list[int] = field(default_factory=list)  # of those that ended
    started: bool = False
    ready: bool = False


def status_of(process: int) -> dict[str, str]:
    """What the kernel tells of a process in /proc/PID/status."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


class Pod:
    """
    Args:
        manifest: with name, labels, status.podIP and what else the downward API may be asked for.
        place: makes what a container needs.
        changed: called whenever `ready` or `phase` may have changed.

    Attributes:
        phase: Pending | Running | Succeeded | Failed.
        leaving: it was deleted, and its grace runs.
    """

    def __init__(
        self, manifest: Object, node: Node, place: Callable[[Object], Place], changed: Callable[[Pod], None]
    ) -> None:
        self.manifest = manifest
        self.name: str = manifest["metadata"]["name"]
        self.labels: dict[str, str] = manifest["metadata"].get("labels", {})
        self.address: str = manifest["status"]["podIP"]
        self.phase = "Pending"
        self.leaving = False
        self.events: list[Event] = []
        self.created_at = time.monotonic()
        self._node = node
        self._changed = changed
        self._spec = manifest["spec"]
        self._init = [_Kept(each, place(each)) for each in self._spec.get("initContainers", [])]
        self._kept = {each["name"]: _Kept(each, place(each)) for each in self._spec["containers"]}
        self._holder: Child | None = None
        self._life: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether services send it anything new."""
        return self.phase == "Running" and all(kept.ready for kept in self._kept.values())

    @property
    def restarts(self) -> int:
        return sum(kept.restarts for kept in self._kept.values())

    @property
    def statuses(self) -> list[int]:
        """With which its containers ended."""
        return [status for kept in self._kept.values() for status in kept.statuses]

    @property
    def grace_s(self) -> float:
        return float(self._spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S))

    def container(self, name: str | None = None) -> Container:
        """The running one."""
        kept = self._kept[name] if name else next(iter(self._kept.values()))
        assert kept.running is not None
        return kept.running

    def log(self) -> str:
        everything = [*self._init, *self._kept.values()]
        return "\n".join(
            kept.place.log.read_text(errors="replace") for kept in everything if kept.place.log.exists()
        )

    def at(self, what: str) -> float:
        """When an event first happened, by the monotonic clock."""
        return next(event.at for event in self.events if event.what.startswith(what))

    def start(self) -> None:
        self._life = asyncio.create_task(self._live())

    async def wait(self) -> str:
        """The phase that it ends in, for pods that end by themselves."""
        assert self._life is not None
        await asyncio.shield(self._life)
        return self.phase

    async def delete(self) -> None:
        """preStop hooks, SIGTERM, SIGKILL once the grace is over. Returns when nothing of it is left."""
        self.leaving = True
        self._note("", "deleted")
        deadline = time.monotonic() + self.grace_s
        await asyncio.gather(*(self._end(kept, deadline) for kept in (*self._init, *self._kept.values())))
        await self._clean_up()
        self._note("", "gone")

    async def kill(self) -> None:
        """Without any grace."""
        self.leaving = True
        for kept in (*self._init, *self._kept.values()):
            if kept.running is not None:
                kept.running.signal(signal.SIGKILL)
                await kept.running.wait()
        await self._clean_up()

    async def _clean_up(self) -> None:
        if self._life is not None:
            self._life.cancel()
            with suppress(asyncio.CancelledError):
                await self._life
        if self._holder is not None:
            await self._holder.stop()

    async def _live(self) -> None:
        self._holder = await self._node.pod(self.name, self.address)
        again = self._spec.get("restartPolicy", "Always")
        for kept in self._init:
            while await self._run_once(kept):
                if again == "Never":
                    return self._become("Failed")
                await asyncio.sleep(self._pause_s(kept))
        self._become("Running")
        async with asyncio.TaskGroup() as group:
            for kept in self._kept.values():
                group.create_task(self._keep(kept, again))
        failed = any(kept.statuses[-1] for kept in self._kept.values())
        return self._become("Failed" if failed else "Succeeded")

    async def _keep(self, kept: _Kept, again: str) -> None:
        while True:
            status = await self._run_once(kept)
            if self.leaving or again == "Never" or (again == "OnFailure" and status == 0):
                return
            pause_s = self._pause_s(kept)
            kept.restarts += 1
            await asyncio.sleep(pause_s)

    @staticmethod
    def _pause_s(kept: _Kept) -> float:
        return float(min(_FIRST_PAUSE_S * 2**kept.restarts, _LONGEST_PAUSE_S)) if kept.restarts else 0.0

    async def _run_once(self, kept: _Kept) -> int:
        name = kept.manifest["name"]
        assert self._holder is not None
        container = kept.running = await Container.start(
            self._holder.process.pid, self._node.pid, kept.place.command, kept.place.root, kept.place.log
        )
        self._note(name, "started")
        probing = asyncio.create_task(self._probe(kept, container))
        try:
            status = await container.wait()
        finally:
            probing.cancel()
            kept.started = kept.ready = False
        kept.statuses.append(status)
        self._note(name, f"ended with {status}")
        self._changed(self)
        return status

    async def _probe(self, kept: _Kept, container: Container) -> None:
        handler = Handler(self._node, self.address, kept.manifest)
        await self._hook(kept, container, "postStart", self.grace_s)
        if (manifest := kept.manifest.get("startupProbe")) is not None:
            startup, over = Probe(manifest), asyncio.Event()

            def judge() -> None:
                if startup.passing is not None:
                    over.set()

            watch = asyncio.create_task(startup.watch(handler, container, judge))
            try:
                await over.wait()
            finally:
                watch.cancel()
            if not startup.passing:
                await self._replace(kept, container, manifest, f"startup failed: {startup.said}")
                return
        kept.started = True
        self._note(kept.manifest["name"], "startup done")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_readiness(kept, container, handler))
            if (manifest := kept.manifest.get("livenessProbe")) is not None:
                group.create_task(self._watch_liveness(kept, container, handler, manifest))

    async def _watch_readiness(self, kept: _Kept, container: Container, handler: Handler) -> None:
        def judge(passing: bool | None, said: str | None) -> None:
            if kept.ready is not (passing or False):
                kept.ready = passing or False
                self._note(kept.manifest["name"], "ready" if kept.ready else f"not ready: {said}")
                self._changed(self)

        if (manifest := kept.manifest.get("readinessProbe")) is None:
            return judge(True, None)
        probe = Probe(manifest)
        return await probe.watch(handler, container, lambda: judge(probe.passing, probe.said))

    async def _watch_liveness(
        self, kept: _Kept, container: Container, handler: Handler, manifest: Object
    ) -> None:
        probe, dead = Probe(manifest), asyncio.Event()
        watch = asyncio.create_task(
            probe.watch(handler, container, lambda: dead.set() if probe.passing is False else None)
        )
        try:
            await dead.wait()
        finally:
            watch.cancel()
        if not self.leaving:
            await self._replace(kept, container, manifest, f"liveness failed: {probe.said}")

    async def _replace(self, kept: _Kept, container: Container, probe: Object, reason: str) -> None:
        self._note(kept.manifest["name"], reason)
        grace_s = probe.get("terminationGracePeriodSeconds", self.grace_s)
        # Not this task, which ends with the container.
        asyncio.create_task(self._end(kept, time.monotonic() + grace_s))  # noqa: RUF006

    async def _end(self, kept: _Kept, deadline: float) -> None:
        container = kept.running
        if container is None or not container.running:
            return
        name = kept.manifest["name"]
        await self._hook(kept, container, "preStop", deadline - time.monotonic())
        self._note(name, "SIGTERM")
        container.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), _LAST_GRACE_S)):
                await container.wait()
        except TimeoutError:
            self._note(name, "SIGKILL")
            container.signal(signal.SIGKILL)
            await container.wait()

    async def _hook(self, kept: _Kept, container: Container, name: str, within_s: float) -> None:
        if (action := kept.manifest.get("lifecycle", {}).get(name)) is None:
            return
        handler = Handler(self._node, self.address, kept.manifest)
        try:
            failure = await handler.call(action, within_s, container)
        except ManifestError as error:
            failure = str(error)
        self._note(kept.manifest["name"], f"{name} failed: {failure}" if failure else name)

    def _become(self, phase: str) -> None:
        self.phase = phase
        self._note("", phase)
        self._changed(self)

    def _note(self, container: str, what: str) -> None:
        self.events.append(Event(time.monotonic(), container, what))
