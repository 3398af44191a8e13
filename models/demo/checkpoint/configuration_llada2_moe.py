"""Configuration of LLaDA2 MoE models. Copied into the checkpoint: transformers has none built in."""

from typing import Any

from transformers.configuration_utils import PretrainedConfig


class LLaDA2MoeConfig(PretrainedConfig):  # type: ignore[misc]
    model_type = "llada2_moe"

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
