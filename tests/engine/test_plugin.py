"""What the plugin does as an engine starts: it is there as a whole, or the engine is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dllm_stack.local.service import free_port
from tests.engine.running import START_S, engine_process
from worker import tiny_checkpoint
from worker.cpu import engine_environment
from worker.dllm import checkpoint_tokens, refusals

IN_VAIN = """
from sglang.srt.plugins.hook_registry import HookRegistry, HookType
from worker.dllm.hook import Hook, install
install([Hook("sglang.srt.dllm.config.DllmConfig.no_such_method", print, HookType.AFTER)])
HookRegistry.apply_hooks()
print("and on it goes")
"""


def test_a_hook_without_a_place_ends_the_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", IN_VAIN],
        env=os.environ | engine_environment(),
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert "dllm-stack" in ended.stderr
    assert "DllmConfig.no_such_method" in ended.stderr.splitlines()[-1]
    assert "and on it goes" not in ended.stdout


@pytest.mark.timeout(START_S + 100)
def test_a_checkpoint_without_a_mask_does_not_start(tmp_path: Path) -> None:
    folder = tiny_checkpoint.write(tmp_path / "tiny")
    config = json.loads((folder / "config.json").read_text())
    del config["mask_token_id"]
    (folder / "config.json").write_text(json.dumps(config))
    with engine_process(folder, free_port(), tmp_path) as process:
        assert process.wait(timeout=START_S) != 0
    assert "has no mask_token_id" in (tmp_path / "engine.log").read_text()


def model(vocab_size: int, **config: Any) -> SimpleNamespace:
    return SimpleNamespace(model_path="m", vocab_size=vocab_size, hf_config=SimpleNamespace(**config))


def test_mask_id_is_the_checkpoints_then_sglangs() -> None:
    assert checkpoint_tokens.mask_id(model(1000, mask_token_id=7), stock=156895) == 7
    assert checkpoint_tokens.mask_id(model(157184), stock=156895) == 156895


@pytest.mark.parametrize("wrong", [1000, -1, "7", True])
def test_mask_id_outside_the_vocabulary_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="mask_token_id is"):
        checkpoint_tokens.mask_id(model(1000, mask_token_id=wrong), stock=156895)


def test_an_autoregressive_engine_refuses_nothing() -> None:
    request = SimpleNamespace(sampling_params={"regex": "[0-9]+"}, return_logprob=True)
    autoregressive = SimpleNamespace(server_args=SimpleNamespace(dllm_algorithm=None))
    refusals.refuse(autoregressive, request)
    assert checkpoint_tokens.read_checkpoint(lambda _: None, object()) is None
