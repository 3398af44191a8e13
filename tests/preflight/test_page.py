"""The page docs/preflight.md shows what the command prints."""

from __future__ import annotations

import re

from tests.docs.pages import assert_holds
from tests.helm.fake_kube_api.cluster import FakeCluster
from tests.preflight import clusters
from tests.preflight.conftest import Command


def test_the_example_is_what_the_command_prints(command: Command) -> None:
    machine = clusters.h200("gpu-0")
    machine["spec"]["taints"].append({"key": "team", "value": "ml", "effect": "NoSchedule"})
    classes = clusters.storage_class("fast", default=False)
    objects = [machine, clusters.node("cpu-0"), clusters.namespace(), classes]
    with FakeCluster(objects=objects) as cluster:
        status, out = command(cluster, "h200-8x")
        out = out.replace(cluster.url, "https://cluster.example:6443")
    assert status == 1
    assert_holds("preflight.md", "\n".join(line.rstrip() for line in out.splitlines()))
    assert not re.search(r"127\.0\.0\.1", out)
