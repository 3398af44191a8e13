"""Refuses what block decoding cannot honour, before it reaches the scheduler.

A grammar would be waited for in a part of the scheduler's loop that block decoding never enters, and the
engine would hang for good; a wrong token id would end the scheduler; the rest would be ignored silently.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from worker.dllm.requests import RequestCheck
from worker.dllm.sampling_params import problems

SHAPE = "sglang.srt.managers.io_struct.GenerateReqInput.normalize_batch_and_arguments"
TARGET = "sglang.srt.managers.tokenizer_manager.TokenizerManager.generate_request"
"""Whatever SGLang's servers and its Python API are asked goes through these, in one process of an engine."""

# Fields of a request that say nothing when they are absent, empty, 0 or false. A batch holds lists of them.
_NOT_HONOURED = (
    "return_logprob",
    "top_logprobs_num",
    "token_ids_logprob",
    "return_sampling_mask",
    "return_hidden_states",
    "return_routed_experts",
    "return_indexer_topk",
    "return_entropy",
    "session_params",
    "lora_path",
    "lora_id",
    "custom_logit_processor",
    "input_embeds",
    "positional_embed_overrides",
    "image_data",
    "video_data",
    "audio_data",
)
_HEALTH_CHECK = "HEALTH_CHECK"  # sglang.srt.constants.HEALTH_CHECK_RID_PREFIX


def refuse(manager: Any, request: Any, http_request: Any = None) -> None:
    """BEFORE hook.

    Raises:
        ValueError: names what cannot be honoured; becomes a 400, or an error event in a stream.
    """
    # Else it is an EmbeddingReqInput, which SGLang refuses itself.
    if manager.server_args.dllm_algorithm is None or not hasattr(request, "return_logprob"):
        return
    with _cleanly(request):
        _refuse_ids(request, manager.model_config.vocab_size)
        _refuse_parameters(manager, request)


def refuse_malformed(original: Callable[[Any], None], request: Any) -> None:
    """AROUND hook: what SGLang trips over is the client's mistake, no failure of the server.

    Raises:
        ValueError: becomes a 400, or an error event in a stream.
    """
    with _cleanly(request):
        try:
            original(request)
        except (AssertionError, AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError(f"the request is malformed: {error}") from error


@contextmanager
def _cleanly(request: Any) -> Iterator[None]:
    """SGLang aborts a stream once more after its end: here under an id that nothing else has."""
    try:
        yield
    except ValueError:
        request.is_single, request.rid = True, uuid.uuid4().hex
        raise


def _refuse_parameters(manager: Any, request: Any) -> None:
    params = request.sampling_params
    if isinstance(params, list) and not (_is_batch(request) and params):
        raise ValueError("sampling_params: must be an object, in a batch a list of them")
    refused = [name for name in _NOT_HONOURED if _says_something(getattr(request, name, None))]
    wrong: list[str] = []
    defaults = manager.model_config.get_default_sampling_params()
    for each in _each(params or {}):
        unhonoured, ill_formed = problems(each, defaults)
        refused += unhonoured
        wrong += ill_formed
        if problem := _check(manager).problem(each.get("custom_params")):
            wrong.append(problem)
    if refused:
        names = ", ".join(dict.fromkeys(refused))
        wrong.insert(0, f"a diffusion language model cannot honour {names}")
    if wrong:
        raise ValueError("; ".join(dict.fromkeys(wrong)))


def _check(manager: Any) -> RequestCheck:
    check: RequestCheck | None = getattr(manager, "dllm_request_check", None)
    if check is None:
        from sglang.srt.dllm.config import DllmConfig

        check = manager.dllm_request_check = RequestCheck(DllmConfig.from_server_args(manager.server_args))
    return check


def _refuse_ids(request: Any, vocab_size: int) -> None:
    """Of tokens and of the request, those that would harm the engine or another request."""
    for ids in _sequences(request.input_ids):
        if ids and not 0 <= min(ids) <= max(ids) < vocab_size:
            raise ValueError(f"input_ids: all must be from 0 to {vocab_size - 1}, the model's vocabulary")
    if isinstance(request.rid, list) and not _is_batch(request):
        raise ValueError("rid: must be a string, in a batch a list of them")
    for rid in _each(request.rid):
        # SGLang aborts all requests whose ids begin with the one given.
        if rid == "":
            raise ValueError("rid: must not be empty")
        # SGLang answers none of these while it is busy: it is alive, and that is all its own check asks.
        if rid is not None and rid.startswith(_HEALTH_CHECK) and request.input_ids != [0]:
            raise ValueError(f"rid: must not begin with {_HEALTH_CHECK}, as SGLang's own do")


def _is_batch(request: Any) -> bool:
    return isinstance(request.text, list) or _is_nested(request.input_ids)


def _sequences(input_ids: Any) -> list[Any]:
    return list(input_ids) if _is_nested(input_ids) else [input_ids]


def _is_nested(input_ids: Any) -> bool:
    return bool(input_ids) and isinstance(input_ids[0], list)


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _says_something(value: Any) -> bool:
    return any(map(_says_something, value)) if isinstance(value, list) else bool(value)
