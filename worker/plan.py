"""What a worker will run: read and checked before anything starts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from dllm_stack.capabilities import DRAWING
from dllm_stack.local.service import free_port
from dllm_stack.messages import ModelCard
from dllm_stack.settings import WorkerSettings
from worker.decisions import Decisions
from worker.engine import catalog, checkpoint, command, hardware, layout, preflight
from worker.engine.architectures import BLOCK_DIFFUSION, PER_REQUEST
from worker.engine.attached import AttachedEngine
from worker.engine.catalog import CatalogError, Facts, Model
from worker.engine.checkpoint import CheckpointError
from worker.engine.client import EngineInfo
from worker.engine.command import EngineCommand
from worker.engine.preflight import Refused
from worker.engine.process import EngineProcess
from worker.engine.supervisor import EngineGivenUp, Server
from worker.prompt import Renderer, TokenizerError


class Refusal(Exception):
    """These settings cannot work. The message says why, a sentence a line."""


@dataclass(frozen=True)
class Plan:
    facts: Facts
    renderer: Renderer
    model: ModelCard  # as far as it is known before the engine runs
    start: Callable[[Path], Awaitable[Server]]  # takes the run folder
    decisions: Decisions

    @property
    def blocks_follow_prompt(self) -> bool:
        architecture = BLOCK_DIFFUSION.get(self.facts.architecture)
        return architecture is not None and architecture.blocks_follow_prompt

    def card(self, engine: EngineInfo) -> ModelCard:
        """The model's card, now that its engine runs."""
        known = msgspec.structs.replace(self.model, context_length=engine.limits.context)
        return _decoded(known, self.decisions, engine.algorithm, engine.capabilities)

    def check(self, engine: EngineInfo) -> None:
        """Raises EngineGivenUp when the engine that came up is not one to serve this model with."""
        reasons = list(preflight.decoding(self.facts, engine.algorithm, engine.attention_backend))
        if engine.streams_deltas and engine.algorithm is not None:
            reasons.append(
                "The engine runs with --incremental-streaming-output, but of a dLLM the worker reads whole "
                "answers: start it without."
            )
        if reasons:
            raise EngineGivenUp("\n".join(reasons))


def make(settings: WorkerSettings, created: int) -> Plan:
    """Reads the model, the profile and the checkpoint, and checks that they fit this machine.

    Args:
        created: Unix seconds, for the model's card.

    Raises:
        Refusal: with every reason there is.
    """
    try:
        model = catalog.load_model(settings.model)
        location = checkpoint.locate(model, settings.checkpoint)
        facts = checkpoint.facts(model, location)
        decoding = model.dllm.decoding if model.dllm else None
        if settings.engine_url is not None:
            url = settings.engine_url
            if not _is_address(url):
                raise Refusal(f"worker.engine_url: {url!r} is not like http://127.0.0.1:30000.")
            block_size = command.block_size(model.dllm, facts)
            algorithm = PER_REQUEST if decoding else model.dllm.algorithm if model.dllm else None
            decisions = Decisions(decoding)

            async def start(run_dir: Path) -> Server:
                return AttachedEngine(url)

        else:
            build = _builder(settings, model, location, facts)
            planned = build(0, Path())
            algorithm, block_size = planned.algorithm, planned.block_size
            decisions = Decisions(decoding, decoding.default if decoding else None)

            async def start(run_dir: Path) -> Server:
                engine = build(free_port(), run_dir)
                return await EngineProcess.start(
                    engine, f"http://127.0.0.1:{engine.values['--port']}", run_dir
                )

        revision = model.revision if location == model.checkpoint else None
        renderer = Renderer.load(location, revision, facts.vocab_size)
    except (CatalogError, CheckpointError, Refused, TokenizerError) as error:
        raise Refusal(str(error)) from error
    card = ModelCard(
        name=model.name,
        context_length=facts.context_length,
        block_size=block_size,
        algorithm=None,
        created=created,
        vocab_size=facts.vocab_size,
        tools=renderer.tool_format,
    )
    return Plan(facts, renderer, _decoded(card, decisions, algorithm), start, decisions)


def _is_address(url: str) -> bool:
    """Of a server, and of nothing on it."""
    try:
        where = urlsplit(url)
        named = bool(where.hostname) and where.port != 0
    except ValueError:  # of a port that is none
        return False
    return named and where.scheme in ("http", "https") and not (where.path.strip("/") or where.query)


def _decoded(
    card: ModelCard, decisions: Decisions, algorithm: str | None, capabilities: list[str] | None = None
) -> ModelCard:
    """The card of a model whose engine has this --dllm-algorithm.

    Args:
        capabilities: of an autoregressive model; None until its engine has been asked.
    """
    decoding = decisions.card_with(algorithm)
    if algorithm is not None:
        capabilities = sorted(DRAWING) if decoding is not None and decoding.sampling else []
    return msgspec.structs.replace(
        card,
        algorithm=decoding.default.algorithm if decoding else algorithm,
        decoding=decoding,
        capabilities=capabilities,
    )


def _builder(
    settings: WorkerSettings, model: Model, location: str, facts: Facts
) -> Callable[[int, Path], EngineCommand]:
    """Checks an engine's settings; what it returns makes the command for a port and a run folder."""
    profile = catalog.load_profile(settings.profile)
    version = command.sglang_version()
    machine = hardware.detect()
    preflight.check(
        model,
        profile,
        facts,
        machine,
        engine_args=settings.engine_args,
        sglang_version=version,
    )
    assert version is not None  # refused above
    # Those that were checked, as SGLang can read them, however this worker was given them.
    gpus = layout.visible(machine) if profile.vendor == "nvidia" else {}

    def build(port: int, run_dir: Path) -> EngineCommand:
        built = command.build(
            model,
            profile,
            location,
            facts,
            port=port,
            run_dir=run_dir,
            engine_args=settings.engine_args,
            sglang_version=version,
        )
        return replace(built, env=built.env | gpus)

    return build
