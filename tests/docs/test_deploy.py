"""docs/deploy.md: its sizes are computed, its images are built, its values exist, its commands parse."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from deploy import sizing
from deploy.charts import types
from deploy.images.lock import ROOT
from dllm_stack.cli import app
from dllm_stack.settings import Settings
from tests.docs.pages import blocks, page, rows_of
from worker.engine import catalog

VALUES = yaml.safe_load((ROOT / "deploy/helm/dllm-stack/values.yaml").read_text(encoding="utf-8"))


def test_sizes_are_as_computed() -> None:
    assert page("deploy.md") == sizing.page(), "run: python -m deploy.sizing"


def test_what_sizes_are_computed_from() -> None:
    """Its figures are those of docs/benchmarks.md, and the data sheets are told."""
    told = " ".join(page("benchmarks.md").split())
    one, eight, many, most = (f"{tokens:,}" for tokens in sizing.MEASURED.values())
    experts = (
        f"288 and {one} at batch 1, 759 and {eight} at 8, 1,366 and {many} at 32 (1.18), 1,932 and {most} at"
    )
    assert experts in told
    text = " ".join(page("deploy.md").split())
    assert f"{one}, {eight}, {many} and {most} tokens/s at 1, 8, 32 and 64 requests" in text
    sheets = [f"{gpu} {sheet.bandwidth}, {sheet.compute}" for gpu, sheet in sizing.DATA_SHEETS.items()]
    assert "; ".join(sheets) in text


def test_between_two_measured_sizes_it_is_a_line() -> None:
    assert sizing.measured(32) == 1610
    assert sizing.measured(16) == pytest.approx((804 * 1610) ** 0.5)


def test_a_worker_half_as_fast_serves_half() -> None:
    model = catalog.load_model("llada2.1-mini")
    h200 = catalog.load_profile("h200-8x")
    assert sizing.tokens_s(h200, model) == 1610
    twice = h200.models[model.name].model_copy(update={"tp": 2})
    assert sizing.tokens_s(h200.model_copy(update={"models": {model.name: twice}}), model) == 3220


def test_an_upgrade_is_given_what_the_installation_was() -> None:
    """Else Helm goes back to the chart's values, and the gateway is open to everybody."""
    commands = re.findall(r"helm (?:install|upgrade) llm [^`\n]*", page("deploy.md"))
    given = [tuple(re.findall(r"--(?:values|set\S*) \S+", command)) for command in commands]
    assert given == [("--values my.yaml",)] * 2


def test_images_are_those_that_are_built() -> None:
    script = (ROOT / "deploy/images/build.sh").read_text(encoding="utf-8")
    built = [line.split() for line in script.partition("<<'END'\n")[2].partition("\nEND")[0].splitlines()]
    told = {row[0].strip("`"): row[2] for row in rows_of("deploy.md", "image", "for")}
    assert set(told) == {name for name, *_ in built}
    for name, file, *base in built:
        dockerfile = (ROOT / f"deploy/images/{file}.Dockerfile").read_text(encoding="utf-8")
        default = re.search(r"^ARG BASE=docker\.io/(?:library/)?(\S+)$", dockerfile, re.MULTILINE)
        assert default
        whole = base[0].removeprefix("docker.io/") if base else default[1]
        assert whole.startswith(told[name].partition(",")[0])


def test_values_exist() -> None:
    """As the text and its examples name them."""
    named = re.findall(r"`([a-z]\w*(?:\.\w+)+)(?:=\w+)?`", page("deploy.md"))
    named = [name for name in named if name.partition(".")[0] in VALUES]
    assert len(named) > 20
    unknown = [name for name in named if not _is_value(name.split("."), VALUES)]
    examples = [yaml.safe_load(block)["dllm-stack"] for block in blocks("deploy.md", "yaml")]
    unknown += [
        path for example in examples for path in _paths(example) if not _is_value(path.split("."), VALUES)
    ]
    assert not unknown


@pytest.mark.parametrize("example", blocks("deploy.md", "yaml"))
def test_examples_render(example: str, tmp_path: Path) -> None:
    helm = shutil.which("helm", path=os.pathsep.join([f"{sys.prefix}/bin", os.environ["PATH"]]))
    assert helm is not None
    values = tmp_path / "values.yaml"
    values.write_text(example)
    argv = [helm, "template", "llm", str(ROOT / "deploy/helm/h200-8x"), "--values", str(values)]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = {each["metadata"]["name"] for each in yaml.safe_load_all(done.stdout) if each}
    assert {"llm-gateway", "llm-worker-mini"} <= names


def _is_value(path: list[str], values: Any) -> bool:
    if path[0] == "pools":
        return len(path) < 3 or _is_defined(path[2:], "pool")
    if path[0] == "config":
        return path[1] in Settings.model_fields
    if path[:2] == ["weights", "volume"] and len(path) > 2:
        return path[2] in ("emptyDir", "pvc", "hostPath", "image")
    # Groups of settings have the same names: gateway.keep_alive_s is no value.
    settings = Settings.model_fields.get(path[0])
    if settings and len(path) == 2 and path[1] in getattr(settings.annotation, "model_fields", ()):
        return True
    for part in path:
        if not isinstance(values, dict) or part not in values:
            return part in ("limits", "requests", "memory") and path[1] == "resources"
        values = values[part]
    return True


def _is_defined(path: list[str], definition: str) -> bool:
    fields = types.definitions()[definition]["properties"]
    return path[0] in fields and (len(path) == 1 or _is_defined(path[1:], path[0]))


def _paths(example: dict[str, Any], before: str = "") -> list[str]:
    found = []
    for name, value in example.items():
        path = f"{before}{name}"
        deeper = isinstance(value, dict) and value and not path.startswith("weights.volume.")
        found += _paths(value, f"{path}.") if deeper else [path]
    return found


def test_commands_parse() -> None:
    """Those of dllm-stack: their subcommands and options exist."""
    text = "\n".join(blocks("deploy.md", "")) + "\n" + "\n".join(re.findall(r"`([^`]+)`", page("deploy.md")))
    found = re.findall(r"(?:\.venv/bin/|-- )dllm-stack ([a-z][^\n)]*)", text)
    assert len(found) > 3
    for line in found:
        words = shlex.split(line.partition("#")[0])
        assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0, line
