"""Mask id and block size from the checkpoint's config.json, where SGLang knows them by architecture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TARGET = "sglang.srt.dllm.config.DllmConfig.from_server_args"


def read_checkpoint(original: Callable[[Any], Any], server_args: Any) -> Any:
    """AROUND hook: the decoding config that SGLang made, corrected by the checkpoint's.

    `mask_token_id` and `block_size` are taken from the checkpoint where it has them; a `block_size` in
    the algorithm's YAML file outranks both. `slots` in that file is how many requests run at once; SGLang's
    --max-running-requests, which sizes its buffers, may be larger, for rows of prompts.

    Raises:
        ValueError: the mask id is no token of the model, or `slots` no number of requests.
    """
    config = original(server_args)
    if config is None:
        return None
    from sglang.srt.configs.model_config import ModelConfig

    model = ModelConfig.from_server_args(server_args)
    if "block_size" not in config.algorithm_config:
        config.block_size = _positive_integer(model.hf_config, "block_size") or config.block_size
    config.max_running_requests = read_slots(config)
    # Negative in SGLang's table: this architecture decodes without a mask.
    if config.mask_id >= 0:
        config.mask_id = mask_id(model, stock=config.mask_id)
    return config


def mask_id(model: Any, stock: int) -> int:
    """The id of the mask token of a SGLang ModelConfig; `stock` is what SGLang's table says.

    Raises:
        ValueError: it is no token of the model's vocabulary.
    """
    own = getattr(model.hf_config, "mask_token_id", None)
    if own is None:
        if stock < model.vocab_size:
            return stock
        raise ValueError(
            f"{model.model_path}/config.json has no mask_token_id, and the {stock} that SGLang assumes for "
            f"its architecture is outside its vocabulary of {model.vocab_size} tokens: add mask_token_id"
        )
    if type(own) is not int or not 0 <= own < model.vocab_size:
        raise ValueError(
            f"{model.model_path}/config.json: mask_token_id is {own!r}, "
            f"which is no token of a vocabulary of {model.vocab_size}"
        )
    return own


def _positive_integer(config: Any, name: str) -> int | None:
    value = getattr(config, name, None)
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise ValueError(f"config.json: {name} is {value!r}, not a positive integer")
    return value


def read_slots(config: Any) -> int:
    limit = int(config.max_running_requests)
    slots = config.algorithm_config.get("slots")
    if slots is None:
        return limit
    if type(slots) is not int or not 1 <= slots <= limit:
        raise ValueError(
            f"--dllm-algorithm-config: slots is {slots!r}, "
            f"not a number from 1 to --max-running-requests, which is {limit}"
        )
    return slots
