"""What the worker tells the extension, in the file that SGLang calls the algorithm's config."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dllm_stack.decoding import Decision

NAME = "PerRequest"
"""Our entry in SGLang's table of algorithms: the one that decodes each request as it asks."""

_Count = Annotated[int, Meta(ge=0)]


class DecoderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Attributes:
        block_size: tokens of a block; None: as the checkpoint says.
        slots: requests at once; None: as many as SGLang's own limit.
        prompt_rows: prompt blocks of a forward that denoises nothing; 0: one a request, as SGLang.
        mixed_prompt_rows: prompt blocks of a forward beside denoising rows; 0: prompts first, as SGLang.
        steps_per_round: denoise steps before the scheduler is asked again. More keep the GPU busier and let
            a new request wait longer.
        default: how a request is decoded that does not say.
        algorithms: the user's own, a file for each name; see `algorithms.table`.
        check_ranks: for debugging, end the engine when its GPUs have come to different tokens; see `ranks`.
    """

    default: Decision
    block_size: Annotated[int, Meta(ge=1)] | None = None
    slots: Annotated[int, Meta(ge=1)] | None = None
    prompt_rows: _Count = 0
    mixed_prompt_rows: _Count = 0
    steps_per_round: Annotated[int, Meta(ge=1)] = 1
    algorithms: dict[str, str] = {}
    check_ranks: bool = False

    @classmethod
    def read(cls, algorithm_config: dict[str, Any]) -> DecoderSettings:
        """
        Args:
            algorithm_config: of SGLang's DllmConfig.

        Raises:
            ValueError: naming what is wrong.
        """
        config = dict(algorithm_config)
        default = config.get("default")
        if not isinstance(default, dict) or not isinstance(default.get("algorithm"), str):
            raise ValueError("--dllm-algorithm-config: default.algorithm is required")
        config["default"] = {
            "algorithm": default["algorithm"],
            "parameters": {name: value for name, value in default.items() if name != "algorithm"},
        }
        try:
            return msgspec.convert(config, cls)
        except msgspec.ValidationError as error:
            raise ValueError(f"--dllm-algorithm-config: {error}") from None
