"""All checks, and what a terminal shows of them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dllm_stack.operator.words import harmless
from dllm_stack.preflight import namespace as namespaces
from dllm_stack.preflight import nodes, rights, supplies
from dllm_stack.preflight.cluster import Cluster, NoAnswer
from dllm_stack.preflight.finding import Finding
from dllm_stack.preflight.needs import Needs

_STYLES = {"ok": "green", "missing": "bold red", "unknown": "yellow", "absent": "dim"}


def findings(cluster: Cluster, needs: Needs, namespace: str) -> list[Finding]:
    """Of every check. When the cluster does not answer, the first one says so and the rest is not tried."""
    try:
        version = supplies.version(cluster)
        in_namespace, is_there = namespaces.check(cluster, needs, namespace)
        return [
            version,
            *nodes.check(cluster, needs),
            *supplies.images(needs),
            *supplies.storage(cluster, needs),
            *supplies.classes(cluster, needs),
            *in_namespace,
            rights.check(cluster, needs, namespace, is_there=is_there),
            *supplies.operators(cluster, needs),
        ]
    except NoAnswer as error:
        advice = "is it the right context? kubectl config current-context; kubectl version"
        return [Finding("Kubernetes", "missing", str(error), advice)]


def show(console: Console, found: Iterable[Finding]) -> None:
    rows = list(found)
    made = Table("", "check", "found", box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for finding in rows:
        made.add_row(
            Text(finding.state, _STYLES[finding.state]),
            Text(harmless(finding.check)),
            Text(harmless(finding.found)),
        )
        if finding.advice and finding.state != "ok":
            made.add_row("", "", Text(f"> {harmless(finding.advice)}"))
    console.print(made)
    counts = {state: sum(finding.state == state for finding in rows) for state in _STYLES}
    console.print(
        f"\n{counts['ok']} ok, {counts['missing']} missing, {counts['unknown']} unknown, "
        f"{counts['absent']} absent and not needed"
    )
