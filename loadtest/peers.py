"""Other projects' gateways in front of a simulator, installed apart from the stack (`loadtest/peers.txt`)."""

from __future__ import annotations

import json
from pathlib import Path

from dllm_stack.local.service import free_port
from loadtest.fleet import POOL, Member

ENVIRONMENT = Path(__file__).resolve().parent.parent / ".venv-peers"


def version(package: str) -> str:
    """As pinned."""
    pins = (line.split("==") for line in (Path(__file__).parent / "peers.txt").read_text().split())
    return {name.partition("[")[0]: version for name, version in pins}[package]


def sglang_router(upstream: str, folder: Path) -> tuple[Member, str]:
    """As it comes, and its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    argv = [
        str(ENVIRONMENT / "bin/python"),
        *("-m", "sglang_router.launch_router"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())),
        *("--worker-urls", upstream),
    ]
    return Member("sglang-router", argv, folder, probe=f"{url}/readiness", env={}), url


def litellm(upstream: str, folder: Path) -> tuple[Member, str]:
    """As it comes, without a database, and its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    parameters = {"model": "openai/simulator", "api_base": f"{upstream}/v1", "api_key": "none"}
    config = folder / "litellm.json"  # JSON is YAML
    config.write_text(json.dumps({"model_list": [{"model_name": POOL, "litellm_params": parameters}]}))
    argv = [
        str(ENVIRONMENT / "bin/litellm"),
        *("--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"),
    ]
    # Else it fetches a list of prices when it starts; and it has no keys here.
    env = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }
    return Member("litellm", argv, folder, probe=f"{url}/health/readiness", env=env), url
