"""The workers of `up`: of which model, where they listen, and on which GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dllm_stack.settings import Listener, Settings
from worker.engine import catalog, command, hardware, layout
from worker.engine.hardware import Hardware


class StartError(Exception):
    """The stack cannot run; the message says why."""


class LocalWorker(NamedTuple):
    """
    Attributes:
        name: of the service.
        env: on top of `up`'s: which GPUs it sees.
    """

    name: str
    model: str
    listener: Listener
    env: dict[str, str]


def workers(settings: Settings) -> list[LocalWorker]:
    """As many of each model as the machine's GPUs hold; one, where there are none, or too few for all models.
    The first is on worker.port, and the others behind it.

    Raises:
        StartError: what is set for one model cannot be for several.
    """
    models = settings.up.models or [settings.worker.model]
    for name in ("checkpoint", "engine_url"):
        if len(models) > 1 and getattr(settings.worker, name) is not None:
            raise StartError(f"worker.{name} is of one model, and up.models names {len(models)}.")
    host, port = settings.worker.host, settings.worker.port
    placed = [
        (model, env) for model, its in zip(models, _places(settings, models), strict=True) for env in its
    ]
    return [
        LocalWorker(
            f"worker-{number + 1}" if len(placed) > 1 else "worker",
            model,
            Listener(host=host, port=port and port + number),
            env,
        )
        for number, (model, env) in enumerate(placed)
    ]


def _places(settings: Settings, models: Sequence[str]) -> list[list[dict[str, str]]]:
    """By model, the environment of each of its workers."""
    one_each: list[list[dict[str, str]]] = [[{}] for _ in models]
    if settings.worker.engine_url is not None:
        return one_each
    found = hardware.detect()
    sizes = _sizes(settings, models, found)
    if sizes is None:
        return one_each
    shares = layout.shares(sizes, len(found.gpus))
    if not all(shares):
        return one_each  # that share the GPUs
    return [[layout.visible(found, gpus) for gpus in its] for its in shares]


def _sizes(settings: Settings, models: Sequence[str], found: Hardware) -> list[int] | None:
    """GPUs of an engine of each model; None: there are none to hand out, or the settings are wrong, which
    the worker will say."""
    try:
        profile = catalog.load_profile(settings.worker.profile)
        engines = [profile.models[catalog.load_model(model).name] for model in models]
        sizes = [command.gpus(engine, settings.worker.engine_args) for engine in engines]
    except (catalog.CatalogError, KeyError, ValueError):
        return None
    fits = profile.vendor == found.vendor != "cpu" and all(1 <= size <= len(found.gpus) for size in sizes)
    return sizes if fits else None
