"""A release of a chart on the fake cluster, by real helm and kubectl."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.helm.conftest import CHARTS, tool
from tests.helm.fake_kube_api.cluster import FakeCluster
from tests.helm.fake_kube_api.kinds import OPERATORS, Object

NAMESPACE = "serving"
NAME = "x"

# What a command of helm or kubectl may take; each waits for something of the fake's, which is there at once.
_LIMIT_S = 200


class Result(NamedTuple):
    status: int
    out: str
    err: str


class ToolError(Exception):
    """A command that should have gone well has not; the message is what it said."""


class Release:
    """
    Attributes:
        helm: helm or helm3.
        home: an empty folder, also for what the tools keep about the cluster.
    """

    def __init__(self, helm: str, chart: str | Path, cluster: FakeCluster, home: Path) -> None:
        self.helm = helm
        self.cluster = cluster
        self.home = home
        self._chart = str(CHARTS / chart)
        self._environment = {
            **os.environ,
            "HOME": str(home),
            "KUBECONFIG": str(cluster.write_kubeconfig(home, NAMESPACE)),
            "HELM_NAMESPACE": NAMESPACE,
        }

    def install(self, *arguments: str) -> str:
        return self.run("install", NAME, self._chart, "--create-namespace", *arguments)

    def upgrade(self, *arguments: str) -> str:
        return self.run("upgrade", NAME, self._chart, *arguments)

    def run(self, *arguments: str) -> str:
        """What helm prints.

        Raises:
            ToolError
        """
        result = self.attempt(self.helm, *arguments)
        if result.status:
            raise ToolError(result.err)
        return result.out

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints.

        Raises:
            ToolError
        """
        result = self.attempt("kubectl", *arguments)
        if result.status:
            raise ToolError(result.err)
        return result.out

    def attempt(self, name: str, *arguments: str, stdin: str | None = None) -> Result:
        print("$", name, *arguments)
        done = subprocess.run(
            [tool(name), *arguments],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        # Helm 4 and 3 say of every symbolic link that they follow it.
        err = "\n".join(line for line in done.stderr.splitlines() if "found symbolic link" not in line)
        print(done.stdout + err)
        return Result(done.returncode, done.stdout, err)

    def history(self) -> list[tuple[int, str]]:
        """Revisions, each with its state in Helm's own words."""
        entries = yaml.safe_load(self.run("history", NAME, "--output", "json"))
        return [(entry["revision"], entry["status"]) for entry in entries]

    def manifest(self) -> list[Object]:
        """What Helm says that the release is made of."""
        text = self.run("get", "manifest", NAME)
        return [content for content in yaml.safe_load_all(text) if content]

    def objects(self, kind: str) -> dict[str, Object]:
        """What is there, by name."""
        return {item["metadata"]["name"]: item for item in self.cluster.all(kind, NAMESPACE)}

    def everything(self) -> set[tuple[str, str]]:
        """Kind and name of all that is in the namespace."""
        store = self.cluster.store
        return {
            (kind.name, item["metadata"]["name"])
            for kind in store.kinds
            for item in store.all(kind, NAMESPACE)
        }

    def pods(self, component: str) -> set[str]:
        """The uids of its pods."""
        label = "app.kubernetes.io/component"
        return {
            pod["metadata"]["uid"]
            for pod in self.cluster.all("Pod", NAMESPACE)
            if pod["metadata"]["labels"].get(label) == component
        }

    def spec(self, deployment: str) -> Any:
        return self.cluster.get("Deployment", NAMESPACE, deployment)["spec"]


@contextlib.contextmanager
def release(helm: str, chart: str | Path) -> Iterator[Release]:
    """Of a chart, a folder of deploy/helm or a path, on a fake cluster of its own with all operators."""
    with FakeCluster(operators=OPERATORS) as cluster, tempfile.TemporaryDirectory() as home:
        yield Release(helm, chart, cluster, Path(home))
