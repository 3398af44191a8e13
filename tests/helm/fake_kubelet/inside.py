"""What runs inside a fake pod: `inside.py node|pod|run|exec`. It needs only the standard library, and
starts at once.

Its specification, or its orders, come as JSON on the file descriptor that the last argument names.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

NEW_MOUNTS, NEW_UTS, NEW_IPC, NEW_USER, NEW_PIDS, NEW_NET = (
    0x20000,
    0x4000000,
    0x8000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_READ_ONLY, _NO_SUID, _NO_DEV, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_DETACH = 2
# What another user namespace's mount must keep; the numbers of mount and statvfs are the same but for one.
_SAME_FLAGS = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
_MOUNT_RELATIME = 1 << 21
_PDEATHSIG, _BOUNDING_DROP, _NO_NEW_PRIVILEGES = 1, 24, 38
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_DEVICES = ("null", "zero", "full", "random", "urandom")

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> None:
    encoded = [each.encode() if isinstance(each, str) else each for each in arguments]
    if getattr(_libc, name)(*encoded) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    _call("mount", source, target, kind, ctypes.c_ulong(flags), data)


def _enter(process: int, kinds: dict[str, int]) -> None:
    """Joins namespaces of a process."""
    handles = [(os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY), kind) for name, kind in kinds.items()]
    for handle, kind in handles:
        _call("setns", handle, kind)
        os.close(handle)


def _map_users(to: int) -> None:
    """In a new user namespace: this process's user and group are `to` from now on."""
    user, group = os.geteuid(), os.getegid()
    _call("unshare", NEW_USER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{to} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{to} {group} 1")


def _die_with_parent() -> None:
    _call("prctl", _PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def node(orders: socket.socket, unprivileged: bool) -> None:
    """The node's network: makes bridge, addresses and cables as it is told, and sockets for who asks."""
    _die_with_parent()
    if unprivileged:
        _map_users(0)
    _call("unshare", NEW_NET)
    _ip("link", "set", "lo", "up")
    orders.send(b"{}")
    while message := orders.recv(1 << 16):
        order = json.loads(message)
        if "ip" in order:
            answer = subprocess.run(["ip", *order["ip"]], capture_output=True, text=True)
            orders.send(json.dumps({"failed": answer.returncode and answer.stderr}).encode())
        else:
            with socket.socket() as made:
                socket.send_fds(orders, [b"{}"], [made.fileno()])


def pod(orders: socket.socket) -> None:
    """What holds a pod's namespaces, as `pause` does."""
    _die_with_parent()
    spec = json.loads(orders.recv(1 << 16))
    _enter(spec["node"], {"user": NEW_USER} if spec["unprivileged"] else {})
    _call("unshare", NEW_NET | NEW_UTS | NEW_IPC)
    _call("sethostname", spec["name"], len(spec["name"]))
    orders.send(b"{}")
    orders.recv(1)  # the cable is there
    _ip("link", "set", "lo", "up")
    _ip("addr", "add", spec["address"], "dev", "eth0")
    _ip("link", "set", "eth0", "up")
    _ip("route", "add", "default", "via", spec["gateway"])
    orders.send(b"{}")
    orders.recv(1)  # until the other end is closed


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def run(orders: socket.socket) -> None:
    """Runs a container, tells its process id, and ends as it does."""
    _die_with_parent()
    with orders.makefile("r") as lines:
        spec = json.loads(lines.readline())
    namespaces = {"net": NEW_NET, "uts": NEW_UTS, "ipc": NEW_IPC}
    _enter(spec["pod"], ({"user": NEW_USER} if spec["unprivileged"] else {}) | namespaces)
    _call("unshare", NEW_MOUNTS | NEW_PIDS)
    until_exec, held = os.pipe()  # the other end is closed when the command begins
    child = os.fork()
    if child == 0:
        _build_root(spec)
        _become(spec)
    os.close(held)
    os.read(until_exec, 1)
    orders.send(f"{child}\n".encode())
    orders.close()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, signal.SIG_IGN)
    os._exit(_status(child))


def execute(orders: socket.socket) -> None:
    """Runs one more command in a container."""
    _die_with_parent()
    with orders.makefile("r") as lines:
        spec = json.loads(lines.readline())
    orders.close()
    namespaces = {"net": NEW_NET, "uts": NEW_UTS, "ipc": NEW_IPC, "pid": NEW_PIDS, "mnt": NEW_MOUNTS}
    if spec["unprivileged"]:
        # The container's own user namespace is within the node's, which owns the others.
        _enter(spec["node"], {"user": NEW_USER})
    try:
        _enter(spec["container"], namespaces)
    except FileNotFoundError:
        os._exit(126)  # the container has ended
    child = os.fork()
    if child == 0:
        _become(spec)
    os._exit(_status(child))


def _status(child: int) -> int:
    """As a container runtime tells it."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _build_root(spec: dict[str, Any]) -> None:
    """A root of its own: folders of this machine, and the volumes, on an empty file system."""
    root = spec["root"]
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    _mount("image", root, "tmpfs", _NO_SUID, "mode=755,size=16m")
    for name, target in spec["links"].items():
        Path(root + name).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, root + name)
    for path, text in spec["files"].items():
        Path(root + path).parent.mkdir(parents=True, exist_ok=True)
        Path(root + path).write_text(text)
    for mount in spec["mounts"]:
        _put(root, mount)
    Path(f"{root}/proc").mkdir()
    _mount("proc", f"{root}/proc", "proc", _NO_SUID | _NO_DEV)
    for device in _DEVICES:
        _put(root, {"source": f"/dev/{device}", "path": f"/dev/{device}", "read_only": False})
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        os.symlink(target, f"{root}/dev/{name}")
    if spec["read_only_root"]:
        _mount("none", root, None, _REMOUNT | _BIND | _READ_ONLY | _NO_SUID)
    os.chdir(root)
    _call("syscall", _PIVOT_ROOT[os.uname().machine], ".", ".")
    _call("umount2", ".", _DETACH)
    os.chdir("/")


def _put(root: str, mount: dict[str, Any]) -> None:
    target = Path(root + mount["path"])
    if "tmpfs" in mount:
        target.mkdir(parents=True, exist_ok=True)
        _mount("tmpfs", str(target), "tmpfs", _NO_SUID | _NO_DEV, mount["tmpfs"])
        return
    source = Path(mount["source"])
    if not os.path.lexists(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir() if source.is_dir() else target.touch()
    _mount(str(source), str(target), None, _BIND | _RECURSIVE)
    if mount["read_only"]:
        flags = os.statvfs(target).f_flag
        kept = flags & _SAME_FLAGS | (_MOUNT_RELATIME if flags & os.ST_RELATIME else 0)
        _mount("none", str(target), None, _REMOUNT | _BIND | _READ_ONLY | kept)


def _become(spec: dict[str, Any]) -> None:
    """Gives up every right, and becomes the command."""
    os.setsid()
    os.umask(0o022)
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    if spec["unprivileged"]:
        _map_users(spec["user"])
    else:
        with open("/proc/sys/kernel/cap_last_cap") as file:
            last = int(file.read())
        for capability in range(last + 1):
            _call("prctl", _BOUNDING_DROP, capability, 0, 0, 0)
        os.setgroups(spec["groups"])
        os.setgid(spec["group"])
        os.setuid(spec["user"])
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _die_with_parent()
    os.chdir(spec["folder"])
    argv: list[str] = spec["argv"]
    try:
        os.execvpe(argv[0], argv, spec["env"])
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        os._exit(127)


if __name__ == "__main__":
    handle = socket.socket(fileno=int(sys.argv[-1]))
    match sys.argv[1]:
        case "node":
            node(handle, sys.argv[2] == "unprivileged")
        case "pod":
            pod(handle)
        case "run":
            run(handle)
        case "exec":
            execute(handle)
