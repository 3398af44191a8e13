"""SGLang's own sampling parameters: which of them mean something to block decoding, and of which type."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta


class _Honoured(msgspec.Struct):
    max_new_tokens: Annotated[int, Meta(ge=0)] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    no_stop_trim: bool | None = None
    stream_interval: Annotated[int, Meta(ge=1)] | None = None
    custom_params: dict[str, Any] | None = None


# The values that ask for nothing; so does None. SGLang's OpenAI endpoints fill in its defaults, among them a
# temperature of 1, so that cannot be told from a request without one.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "temperature": (0, 1),
    "top_p": (1,),
    "top_k": (-1, 1, 1 << 30),
    "min_p": (0,),
    "sampling_seed": (),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "min_new_tokens": (0,),
    "logit_bias": ({},),
    "n": (1,),
    "beam_width": (1,),
    "json_schema": ("",),
    "regex": ("",),
    "ebnf": ("",),
    "structural_tag": ("",),
    # Honoured, but a hostile one keeps the scheduler busy for ever.
    "stop_regex": ("", []),
    "watermark": (),
}
_SAMPLING = frozenset({"temperature", "top_p", "top_k", "sampling_seed"})
# SGLang's own way to say something to its scheduler.
_PRIVATE = "__sglang"


def problems(params: dict[str, Any], defaults: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What is wrong with the `sampling_params` of a request.

    Args:
        defaults: those that SGLang fills in from the checkpoint's generation_config.json.

    Returns:
        The names of those that cannot be honoured, and sentences that name the others.
    """
    # Not above: it brings in packages that only an engine's own process can load on a CPU.
    from sglang.srt.sampling.sampling_params import SamplingParams

    refused = [
        name
        for name, neutral in _NEUTRAL.items()
        if params.get(name) is not None and params[name] not in (*neutral, defaults.get(name))
    ]
    wrong = [
        f"sampling_params: {str(name)[:100]!r} is not known"
        for name in params
        # What this SGLang does not know, it fails at.
        if name not in SamplingParams.__struct_fields__
        or (name not in _NEUTRAL and name not in _Honoured.__struct_fields__)
    ]
    wrong += _ill_typed(params)
    if _SAMPLING.intersection(refused):
        wrong.append("sampling is asked for in custom_params.dllm.sampling")
    custom_params = params.get("custom_params")
    if isinstance(custom_params, dict):
        wrong += [
            f"custom_params: {str(name)[:100]!r} is not known"
            for name in custom_params
            if name != "dllm" and not str(name).startswith(_PRIVATE)
        ]
    return refused, wrong


def _ill_typed(params: dict[str, Any]) -> list[str]:
    wrong = []
    for name in _Honoured.__struct_fields__:
        if name in params:
            try:
                msgspec.convert({name: params[name]}, _Honoured)
            except msgspec.ValidationError as error:
                reason = str(error).split(" - at ")[0]
                wrong.append(f"{name}: {reason[0].lower()}{reason[1:]}")
    return wrong
