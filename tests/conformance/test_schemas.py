"""/openapi.json is true: of every path, and by schemathesis of what it takes and answers."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from dllm_stack.redis import Connections
from dllm_stack.settings import Settings
from gateway.app import create_app
from gateway.openapi.operations import OPERATIONS
from tests.conformance.programs import folder
from tests.gateway.fake_worker import FakeWorker
from tests.gateway.served import Served

EXAMPLES = int(os.environ.get("DLLM_TEST_SCHEMAS", "0"))  # requests of each path; 0: a short run
MODEL = "tiny"


def test_every_path_is_described() -> None:
    app = create_app(Settings())
    assert app.openapi()["paths"].keys() == OPERATIONS.keys()


def _knowing_the_model(document: dict[str, Any]) -> dict[str, Any]:
    """Else next to every request would ask for a model that does not exist."""
    for path in document["paths"].values():
        for operation in path.values():
            body = operation.get("requestBody", {"content": {}})["content"]
            for content in body.values():
                fields = content["schema"]["properties"]
                fields["model"] = {"enum": [MODEL, None] if "anyOf" in fields["model"] else [MODEL]}
    return document


@pytest.mark.timeout(300 + 3 * EXAMPLES)
async def test_what_is_taken_and_answered(
    served: Served,
    connections: Connections,
    settings: Settings,
    tmp_path: Path,
    record: Callable[[str], None],
) -> None:
    program = folder("schemas") / "bin" / "st"
    app = served.server.config.app
    assert isinstance(app, FastAPI)
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(_knowing_the_model(app.openapi())))
    phases = "coverage,fuzzing,stateful" if EXAMPLES else "fuzzing"
    command = [
        *(program, "--config-file", Path(__file__).parent / "schemathesis.toml"),
        *("run", document, "--url", served.url, "--request-timeout", "120"),
        *("--phases", phases, "--max-examples", str(EXAMPLES or 10), "--seed", "1"),
        *("--no-shrink", "--continue-on-failure", "--no-color"),
    ]
    async with FakeWorker(connections, settings.queue, MODEL, blocks=["Hello ", "world"]).working():
        process = await asyncio.create_subprocess_exec(
            *map(str, command),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    answered = sum(
        count for (_, _, outcome, _), count in (await served.outcomes()).items() if outcome == "completed"
    )
    assert answered > 0, output
    (cases,) = [line.strip() for line in output.splitlines() if " generated" in line]
    record(f"schemathesis: {cases}; {answered:.0f} requests were answered by the worker")
