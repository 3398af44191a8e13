"""Schemas of what the worker's catalog reads: how an engine runs a model, and what a model is."""

from __future__ import annotations

from typing import Any

from deploy.charts import pydantic_schema
from worker.engine.catalog import Dllm, Engine, Facts


def definitions() -> dict[str, dict[str, Any]]:
    dllm = pydantic_schema.schema(Dllm)
    modes = dllm["properties"]["modes"]
    # A name in configs/modes, too: the model's validator sees to that, so that its schema does not know.
    dllm["properties"]["modes"] = {"anyOf": [{"type": "string", "minLength": 1}, modes]}
    engine = pydantic_schema.schema(Engine)
    for field in engine["properties"].values():
        field.pop("default", None)  # what is not given is as the profile has it
    return {"engine": engine, "facts": pydantic_schema.schema(Facts), "dllm": dllm}
