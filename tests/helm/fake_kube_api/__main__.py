"""The fake by hand: prints how to point helm and kubectl at it, and serves until Ctrl-C."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

from tests.helm.fake_kube_api.cluster import FakeCluster
from tests.helm.fake_kube_api.kinds import OPERATORS

with tempfile.TemporaryDirectory() as folder, FakeCluster(operators=OPERATORS) as cluster:
    print(f"export KUBECONFIG={cluster.write_kubeconfig(Path(folder))}", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
