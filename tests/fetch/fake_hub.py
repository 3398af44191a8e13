"""A fake Hugging Face hub: as much of its HTTP as is needed to read one checkpoint.

It answers slowly, cuts connections, ignores ranges or lies about a file if it is told to, and notes what it
is asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

HUB_ID = "fakes/checkpoint"
COMMIT = "5" * 40
TOKEN = "hf_of_the_tests"

_LARGE = 10_000  # bytes: from here on a file has a SHA-256, as with the hub's large file storage
_PIECE = 64 << 10


@dataclass
class FakeHub:
    files: dict[str, bytes]
    url: str = ""
    slow: bool = False  # waits for `go_on` in the middle of each large file
    cuts: int = 0  # connections that it will cut in the middle of a large file
    busy: int = 0  # files that it will answer 503
    ranges: bool = True
    lies: bool = False
    gated: bool = False
    asked: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # path -> each first byte
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go_on: threading.Event = field(default_factory=threading.Event)

    def digest(self, path: str) -> str:
        content = self.files[path]
        if len(content) >= _LARGE:
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    def _may(self, request: web.Request) -> None:
        if self.gated and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise web.HTTPUnauthorized(headers={"X-Error-Code": "GatedRepo"})

    async def info(self, request: web.Request) -> web.Response:
        self._may(request)
        self._is_known(request)
        return web.json_response({"id": HUB_ID, "sha": COMMIT, "siblings": []})

    async def tree(self, request: web.Request) -> web.Response:
        self._may(request)
        self._is_known(request)
        self.asked["tree"].append(0)
        entries = []
        for path, content in self.files.items():
            entry = {"type": "file", "path": path, "size": len(content), "oid": "0" * 40}
            if len(content) >= _LARGE:
                entry["lfs"] = {"oid": self.digest(path), "size": len(content), "pointerSize": 134}
            else:
                entry["oid"] = self.digest(path)
            entries.append(entry)
        return web.json_response(entries)

    def _is_known(self, request: web.Request) -> None:
        if request.match_info["hub_id"] != HUB_ID:
            raise web.HTTPNotFound(headers={"X-Error-Code": "RepoNotFound"})
        if request.match_info["revision"] not in ("main", COMMIT):
            raise web.HTTPNotFound(headers={"X-Error-Code": "RevisionNotFound"})

    async def file(self, request: web.Request) -> web.StreamResponse:
        self._may(request)
        path = request.match_info["path"]
        content = self.files[path]
        if self.lies:
            content = bytes(len(content))
        begin = 0
        if self.ranges and (asked := re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))):
            begin = int(asked[1])
        self.asked[path].append(begin)
        if self.busy:
            self.busy -= 1
            raise web.HTTPServiceUnavailable()
        response = web.StreamResponse(status=206 if begin else 200)
        response.content_length = len(content) - begin
        await response.prepare(request)
        large = len(content) >= _LARGE
        middle = begin + (len(content) - begin) // 2
        for at in range(begin, len(content), _PIECE):
            if large and at <= middle < at + _PIECE and self.cuts:
                self.cuts -= 1
                assert request.transport is not None
                request.transport.close()
                return response
            try:
                end = at + _PIECE
                if large and self.slow and at <= middle < end:
                    self.waiting.release()
                    # A byte now and then, so that nobody takes the connection for dead meanwhile.
                    while not await asyncio.to_thread(self.go_on.wait, 5):
                        await response.write(content[at : at + 1])
                        at += 1
                await response.write(content[at:end])
            except ConnectionResetError:
                break
        return response


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        app = web.Application()
        known = r"{hub_id:[^/]+/[^/]+}"
        app.router.add_get(f"/api/models/{known}/revision/{{revision}}", hub.info)
        app.router.add_get(f"/api/models/{known}/tree/{{revision}}", hub.tree)
        app.router.add_get(f"/{known}/resolve/{{revision}}/{{path:.+}}", hub.file)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        hub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    def run() -> None:
        runner = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    try:
        yield hub
    finally:
        hub.go_on.set()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def checkpoint() -> dict[str, bytes]:
    """Two files of weights, what belongs to them, and the same again for other programs."""
    weights = {f"model-0000{n}-of-00002.safetensors": bytes([n]) * (4 << 20) for n in (1, 2)}
    index = {"weight_map": {f"layer{n}": name for n, name in enumerate(weights)}}
    return weights | {
        "config.json": json.dumps({"architectures": ["LLaDA2MoeModelLM"]}).encode(),
        "configuration_llada2_moe.py": b"class Configuration: ...\n",
        "model.safetensors.index.json": json.dumps(index).encode(),
        "tokenizer_config.json": b"{}",
        "generation_config.json": b"{}",
        "tokenizer.model": b"sentencepiece" * 10,
        "pytorch_model.bin": bytes(1 << 20),
        "original/consolidated.safetensors": bytes(1 << 20),
        "empty.txt": b"",
    }
