"""`make show-charts`: every chart in every way, by both Helms, against every Kubernetes."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from deploy.charts import golden, matrix, references, schema, table, validation
from deploy.charts.helm import HELMS, HelmError, Manifest, pod_of, run, template
from deploy.charts.places import PAGE, charts, thin_charts
from dllm_stack.preflight.pod_security import violations

# Volumes that the standard does not have.
_BEYOND = {"weights-on-nodes": "hostPath"}


def _generated() -> Iterator[str]:
    for path, content in (schema.files() | {PAGE: table.page()} | golden.files()).items():
        if path.read_text(encoding="utf-8") != content:
            yield f"{path} is not what `make charts` writes"


def _lint() -> Iterator[str]:
    for helm in HELMS:
        for case in matrix.cases():
            yield from _refused(
                case.name,
                "lint",
                "--strict",
                case.chart,
                "--values",
                "-",
                helm=helm,
                values=case.given() or "{}",
            )


def _dependencies() -> Iterator[str]:
    """They are there, and `dependency build`, which some run out of habit, harms nothing."""
    for helm in HELMS:
        for chart in thin_charts():
            with tempfile.TemporaryDirectory() as folder:
                copy = shutil.copytree(chart, Path(folder) / chart.name)
                run("dependency", "build", "--skip-refresh", copy, helm=helm)
                if "unpacked" not in run("dependency", "list", copy, helm=helm):
                    yield f"{chart.name}, {helm}: its dependency is not there"
                if _comparable(copy, helm) != _comparable(chart, helm):
                    yield f"{chart.name}, {helm}: after `dependency build` it renders something else"


def _packages() -> Iterator[str]:
    """A package is a file of its own, outside of this repository: it renders the same."""
    for helm in HELMS:
        for chart in charts():
            with tempfile.TemporaryDirectory() as folder:
                run("package", chart, "--destination", folder, helm=helm)
                (package,) = Path(folder).iterdir()
                if chart in thin_charts() and _comparable(package, helm) != _comparable(chart, helm):
                    yield f"{chart.name}, {helm}: the package renders something else"


def _comparable(chart: Path, helm: str) -> str:
    lines = template(chart, helm=helm).splitlines()
    return "\n".join(line for line in lines if not line.startswith("  password: "))


def _both_helms() -> Iterator[str]:
    for case in matrix.cases():
        four, three = (_but_secrets(case.manifests(helm)) for helm in HELMS)
        if four != three:
            yield f"{case.name}: helm and helm3 render different manifests"


def _but_secrets(manifests: list[Manifest]) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] != "Secret"]


def _validates() -> Iterator[str]:
    yield from validation.all_errors(matrix.cases())


def _refers() -> Iterator[str]:
    for case in matrix.cases():
        for error in references.dangling(case.manifests(), case.words()):
            yield f"{case.name}: {error}"


def _is_restricted() -> Iterator[str]:
    for case in matrix.cases():
        variant = case.name.rpartition(": ")[2]
        for pod in filter(None, map(pod_of, case.manifests())):
            for violation in violations(pod, "restricted"):
                if variant not in _BEYOND or f"{_BEYOND[variant]} is not allowed" not in violation:
                    yield f"{case.name}: {violation}"


def _refused(name: str, *arguments: str | Path, helm: str, values: str) -> Iterator[str]:
    try:
        run(*arguments, helm=helm, values=values)
    except HelmError as error:
        yield f"{name}, {helm}: {error}"


def main() -> int:
    cases = matrix.cases()
    manifests = sum(len(case.manifests()) for case in cases)
    print(f"{len(charts())} charts, {len(cases)} renders, {manifests} manifests")
    both = " and ".join(run("version", "--short", helm=helm).strip() for helm in HELMS)
    kubernetes = f"Kubernetes {validation.VERSIONS[0]} to {validation.VERSIONS[-1]}"
    custom = ", ".join(kind.rpartition("/")[2] for kind in validation.custom_resources())
    checks: list[tuple[str, Callable[[], Iterator[str]]]] = [
        ("schemas, table and golden renders are as generated", _generated),
        (f"lint --strict: {both}", _lint),
        ("dependencies are there, and dependency build changes nothing", _dependencies),
        ("both Helms render the same", _both_helms),
        ("packages render what the folders do", _packages),
        (f"validate --strict: {kubernetes}; {custom} by schemas of our own", _validates),
        ("what manifests name of one another is there", _refers),
        ("Pod Security Standard `restricted`, but for weights by hostPath", _is_restricted),
    ]
    bad = 0
    for name, check in checks:
        found = list(check())
        bad += len(found)
        print(f"{'FAILED' if found else 'ok':6} {name}", flush=True)
        for error in found[:20]:
            print(f"       {error}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
