"""Every setting of every service, in one place.

Read from, later ones winning: the defaults below, a YAML file (`--config` or DLLM_CONFIG), and
environment variables such as DLLM_REDIS__URL or DLLM_GATEWAY__PORT. An unknown or impossible value
stops the service at start with the setting's name.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as UnreadableSource

from dllm_stack.messages import Tier
from dllm_stack.redis_url import parse
from dllm_stack.tenants import LEAST_WEIGHT, MOST_WEIGHT

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
Policy = Literal["session", "prefix", "least_tokens"]

_PREFIX = "DLLM_"
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:\d{1,5})?|https?://\[[0-9a-f:]+\](:\d{1,5})?")
_NO_SETTINGS = re.compile(r"DLLM_CONFIG$|DLLM_TEST_")  # the settings file; what only tests read


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RedisSettings(_Group):
    url: str = Field(
        "redis://127.0.0.1:6379/0",
        description="Redis >= 7 or Valkey: redis://, rediss:// or unix://, redis+sentinel://host:port,.../service"
        " or redis+cluster://host:port,...",
    )
    timeout_s: float = Field(2.0, gt=0, description="Limit of one command, connecting included.")

    @field_validator("url")
    @classmethod
    def _is_understood(cls, url: str) -> str:
        parse(url)
        return url


class Bounds(_Group):
    max_waiting_jobs: int | None = Field(None, ge=1)
    max_waiting_bytes: int | None = Field(None, ge=1)


class TenantSettings(Bounds):
    weight: float = Field(
        1.0, ge=LEAST_WEIGHT, le=MOST_WEIGHT, description="Its share of the tokens, beside other tenants'."
    )
    max_running: int | None = Field(None, ge=1, description="Jobs that run at once in one pool.")


class QueueSettings(_Group):
    max_waiting_jobs: int = Field(1000, ge=1, description="Jobs waiting in one pool; the next gets a 429.")
    max_waiting_bytes: int = Field(256 << 20, ge=1, description="Bytes of waiting jobs in one pool.")
    tiers: dict[Tier, Bounds] = Field({}, description="Bounds of each priority class in one pool.")
    tenants: dict[str, TenantSettings] = Field(
        {}, description="Bounds and share of each tenant in one pool; `default` is for those not named."
    )
    ageing_s: float = Field(
        30.0, gt=0, description="A class whose oldest job has waited this long gets every eighth slot."
    )
    cold_start_s: float = Field(
        0.0, ge=0, description="How long jobs wait in a known pool without any worker; 0: 503 at once."
    )
    max_attempts: int = Field(3, ge=1, description="Workers a job may lose before it fails.")
    dead_letters: int = Field(
        100,
        ge=0,
        description="Jobs of one pool that lost all their workers and are kept for a day, prompt included.",
    )
    breaker_failures: int = Field(3, ge=1, description="Failures in a row after which a worker is set aside.")
    breaker_s: float = Field(
        5.0, gt=0, description="How long it is set aside, doubled each time until a trial succeeds."
    )
    heartbeat_s: float = Field(1.0, gt=0, description="Period of a worker's and a gateway's heartbeat.")
    heartbeat_ttl_s: float = Field(5.0, gt=0, description="Silence after which either counts as dead.")
    worker_grace_s: float = Field(
        120.0, ge=0, description="How long a pool that lost its last worker still takes jobs; then 503."
    )

    @model_validator(mode="after")
    def _ttl_spans_heartbeats(self) -> Self:
        if self.heartbeat_ttl_s < 2 * self.heartbeat_s:
            raise ValueError("heartbeat_ttl_s must be at least twice heartbeat_s")
        return self


class LimitSettings(_Group):
    blind_s: float = Field(
        60.0,
        ge=0,
        le=60,
        description="How long a tenant with limits is refused when it is not known what it has used.",
    )


class Listener(_Group):
    host: str = "127.0.0.1"
    port: int = Field(ge=0, le=65535, description="0 takes any free one.")


class GatewaySettings(Listener):
    port: int = Field(8000, ge=0, le=65535)
    request_timeout_s: float = Field(600.0, gt=0, description="Deadline of a request, waiting included.")
    max_body_bytes: int = Field(4 << 20, ge=1)
    body_timeout_s: float = Field(60.0, gt=0, description="How long a client may take to send a body.")
    cors_origins: list[str] = Field(
        [], description="Web pages of these origins may use the API from a browser; `*`: of any."
    )
    reply_grace_s: float = Field(
        10.0, ge=0, description="How long running streams outlive an unreachable Redis."
    )
    keep_alive_s: float = Field(
        15.0, ge=0, description="Silence of a stream after which it gets a comment; 0: none."
    )
    drain_s: float = Field(30.0, ge=0, description="How long SIGTERM waits for open requests.")
    playground: bool = Field(True, description="Whether there is a page at `/` for people to try the models.")

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, origins: list[str]) -> list[str]:
        for origin in origins:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"{origin!r} is no origin, as in https://app.example or http://localhost:3000"
                )
        return origins


class AccessSettings(_Group):
    keys: str = Field(
        "off",
        description="Where API keys and tenants are kept: redis, or the path of a YAML file; off: no keys are"
        " needed, and a tenant is who X-Tenant-ID says.",
    )

    @field_validator("keys", mode="before")
    @classmethod
    def _off_is_no_boolean_here(cls, keys: object) -> object:
        return "off" if keys is False else keys  # YAML takes the bare word for one

    @field_validator("keys")
    @classmethod
    def _is_a_place(cls, keys: str) -> str:
        if keys not in ("off", "redis") and "/" not in keys:
            raise ValueError("must be off, redis, or a path with a slash in it")
        return keys

    @property
    def file(self) -> Path | None:
        return None if self.keys in ("off", "redis") else Path(self.keys)


class AdminSettings(Listener):
    port: int = Field(8003, ge=0, le=65535, description="The admin API, where access.keys is not off.")


class RouterSettings(Listener):
    port: int = Field(8001, ge=0, le=65535, description="Health and metrics.")
    policies: list[Policy] = Field(
        ["session", "prefix", "least_tokens"],
        description="What picks a job's worker among those with a free slot: each narrows the choice.",
    )
    affinity_s: float = Field(
        600.0, gt=0, description="How long a worker is thought to hold a prefix or session in its cache."
    )
    worker_pods: str | None = Field(
        None, min_length=1, description="Label selector of the workers' pods to watch; unset: no cluster."
    )
    worker_pods_namespace: str | None = Field(
        None, min_length=1, description="Their namespace; unset: the router's own, or the kubeconfig's."
    )


class WorkerSettings(Listener):
    port: int = Field(8002, ge=0, le=65535, description="Health and metrics.")
    model: str = Field("dllm-demo", description="A name in configs/models, or the path of such a file.")
    profile: str = Field("cpu-dev", description="A name in configs/profiles, or the path of such a file.")
    checkpoint: str | None = Field(
        None, description="Overrides the model file's checkpoint: a folder or a hub id."
    )
    engine_url: str | None = Field(
        None, description="Attach to a running SGLang server instead of starting one."
    )
    engine_args: list[str] = Field([], description="More sglang.launch_server arguments, placed last.")
    start_timeout_s: float = Field(1800.0, gt=0, description="Loading longer than this restarts the engine.")
    stall_s: float = Field(
        60.0,
        gt=0,
        description="A job on which the engine is silent this long is taken from it.",
    )
    drain_s: float = Field(30.0, ge=0, description="How long SIGTERM waits for running jobs.")
    pod: str | None = Field(None, min_length=1, description="The name of the Kubernetes pod it runs in.")


class TracingSettings(_Group):
    endpoint: str | None = Field(
        None,
        description="Where traces go: OTLP over HTTP, as in http://127.0.0.1:4318; unset: there are none.",
    )
    sample: float = Field(
        1.0, ge=0, le=1, description="Share of the requests that are traced, where the client does not say."
    )
    timeout_s: float = Field(5.0, gt=0, description="Limit of sending a batch of spans, which is then lost.")

    @field_validator("endpoint")
    @classmethod
    def _is_http(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not endpoint.startswith(("http://", "https://")):
            raise ValueError("must be like http://127.0.0.1:4318")
        return endpoint and endpoint.rstrip("/").removesuffix("/v1/traces")


class UpSettings(_Group):
    models: list[str] = Field(
        [],
        description="What `up` serves, each by a worker and an engine of its own, on a machine with several "
        "GPUs by as many as there is room for: names in configs/models, "
        "or paths of such files. None: worker.model.",
    )
    monitoring: bool = Field(
        False, description="Prometheus, Alertmanager and an exporter for Redis, too: `--with-monitoring`."
    )
    prometheus_port: int = Field(9090, ge=0, le=65535, description="On 127.0.0.1; 0 takes any free one.")


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
    )

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"
    redis: RedisSettings = RedisSettings()
    queue: QueueSettings = QueueSettings()
    gateway: GatewaySettings = GatewaySettings()
    access: AccessSettings = AccessSettings()
    limits: LimitSettings = LimitSettings()
    admin: AdminSettings = AdminSettings()
    router: RouterSettings = RouterSettings()
    worker: WorkerSettings = WorkerSettings()
    tracing: TracingSettings = TracingSettings()
    up: UpSettings = UpSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        sources = [init_settings, env_settings]
        if path := os.environ.get("DLLM_CONFIG"):
            sources.append(InitSettingsSource(settings_cls, _read(Path(path))))
        return tuple(sources)


class SettingsError(Exception):
    """A setting is unknown or impossible; the message names each."""


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: must be a mapping of setting groups")
    return content


def load(config: Path | None = None) -> Settings:
    """Reads the settings. `config`, if given, takes the place of DLLM_CONFIG.

    Raises:
        SettingsError: naming every setting that is wrong.
    """
    if config is not None:
        os.environ["DLLM_CONFIG"] = str(config)
    known = {f"{_PREFIX}{name.upper()}" for name in Settings.model_fields}
    # Kubernetes describes each Service to its pods: one named dllm-gateway as DLLM_GATEWAY_SERVICE_HOST,
    # DLLM_GATEWAY_PORT=tcp://... and more.
    services = tuple(
        name.removesuffix("SERVICE_HOST") for name in os.environ if name.endswith("_SERVICE_HOST")
    )
    given = [name for name in os.environ if name.startswith(_PREFIX) and not _NO_SETTINGS.match(name)]
    if typos := [
        name for name in given if name.split("__")[0] not in known and not name.startswith(services)
    ]:
        raise SettingsError("\n".join(f"{name}: no such setting" for name in sorted(typos)))
    try:
        return Settings()
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, each['loc']))}: {each['msg'].removeprefix('Value error, ')}"
            for each in error.errors()
        ]
        raise SettingsError("\n".join(lines)) from None
    except UnreadableSource as error:
        raise SettingsError(str(error)) from None
