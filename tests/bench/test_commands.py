"""Options that are wrong by themselves."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dllm_stack.cli import app


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--base-url", "localhost:8000"], "--base-url: 'localhost:8000' does not begin with http"),
        (["--base-url", "http://:8000"], "--base-url: 'http://:8000' has no host"),
        (["--base-url", "http://127.0.0.1:99999"], "or a port that there is not"),
        (["--extra-request-body", "[]"], "--extra-request-body: is no JSON object"),
        (["--extra-request-body", "{"], "--extra-request-body: is no JSON"),
        (["--max-concurrency", "0"], "--max-concurrency"),
        (["--num-prompts", "few"], "--num-prompts"),
        (["--backend", "grpc"], "--backend"),
        (["compare", "/nowhere.json", "/nowhere.json"], "A: /nowhere.json: No such file"),
    ],
)
def test_it_is_named(arguments: list[str], message: str) -> None:
    found = CliRunner().invoke(app, ["bench", *arguments])
    assert found.exit_code == 2
    assert message in found.output
