"""What a real scheduler does with prompts.

    python -m tests.engine.prefill.scenarios FOLDER SERVER_ARGS LONGEST

Writes FOLDER/result.json. Stock and ours are one engine: what is in force is switched between two requests.
"""

from __future__ import annotations

import copy
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.engine.prefill.engine import Engine, kv_of
from worker import tiny_checkpoint

BLOCK = 32
LENGTHS = (1, 31, 32, 33, 64, 95, 300)
SHORTER = (33, 95)
ANSWER = 40
_JOINT = {"threshold": 0.5, "edit_threshold": 0.2, "max_post_edit_steps": 4}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "LowConfidence": {"threshold": 0.6},
    "JointThreshold": _JOINT,
    "PerRequest": {
        "default": {"algorithm": "JointThreshold", **_JOINT},
        "steps_per_round": 8,
    },
}
SLOTS, ALONE, MIXED = 8, 16, 4
POOL = 1536


def start(folder: Path, server_args: dict[str, Any]) -> Engine:
    return Engine(
        tiny_checkpoint.write(folder / "tiny"),
        decoding={"threshold": 0.6, "slots": SLOTS, "prompt_rows": ALONE, "mixed_prompt_rows": MIXED},
        max_running_requests=SLOTS + ALONE,
        max_total_tokens=POOL,
        context_length=2048,
        **server_args,
    )


class Scenarios:
    def __init__(self, engine: Engine) -> None:
        from worker.dllm.prefill import limits

        self.engine = engine
        self.limits = limits
        self.ours = limits.of(engine.config)
        self.free = engine.free_tokens()

    def stock(self, on: bool) -> None:
        self.limits.put_in_force(self.engine.config, self.limits.STOCK if on else self.ours)

    def prompt(self, length: int) -> list[int]:
        generator = torch.Generator().manual_seed(length)
        ids = torch.randint(
            10, self.engine.scheduler.model_config.vocab_size - 1, (length,), generator=generator
        )
        return [int(each) + (each >= self.engine.config.mask_id) for each in ids]

    def alone(self, length: int) -> tuple[list[int], torch.Tensor | None, int]:
        """Its answer, the KV of its whole prompt blocks, and the rounds it took."""
        request, whole = self.engine.ask(self.prompt(length), ANSWER), length // BLOCK * BLOCK
        kv: list[torch.Tensor] = []

        def keep_kv(batch: Any) -> None:
            if whole and batch and not request.finished():
                kv[:] = [kv_of(self.engine, request, whole)]

        rounds = self.engine.run([request], keep_kv)
        self.engine.flush()
        return list(request.output_ids), kv[0] if kv else None, rounds

    def together(self, lengths: tuple[int, ...]) -> tuple[list[list[int]], list[tuple[int, int, int]]]:
        """Answers, and of every round how many rows were denoised, how many prompt rows there were, and how
        many answers under way were left out."""
        from sglang.srt.dllm.mixin.req import DllmReqPhase

        from worker.dllm.prefill.request import extent_end, is_prompt, prefix_length

        rounds: list[tuple[int, int, int]] = []
        original = self.engine.scheduler.run_batch

        def count(batch: Any) -> Any:
            rows = [
                ((extent_end(each) - prefix_length(each)) // BLOCK, is_prompt(each)) for each in batch.reqs
            ]
            left_out = [
                each
                for each in self.engine.scheduler.dllm_manager.waiting_queue
                if each.dllm_phase == DllmReqPhase.STAGING_DECODE and each not in batch.reqs
            ]
            denoised, prompts = (sum(n for n, known in rows if known is kind) for kind in (False, True))
            rounds.append((denoised, prompts, len(left_out)))
            return original(batch)

        self.engine.scheduler.run_batch = count
        requests = [self.engine.ask(self.prompt(length), ANSWER) for length in lengths]
        self.engine.run(requests)
        del self.engine.scheduler.run_batch
        self.engine.flush()
        return [list(each.output_ids) for each in requests], rounds

    def equal(self, algorithm: str, lengths: tuple[int, ...]) -> dict[str, Any]:
        # Ours has the decoding of JointThreshold here, and so the same reference.
        reference = "JointThreshold" if algorithm == "PerRequest" else algorithm
        self.engine.use(reference, **ALGORITHMS[reference])
        self.stock(True)
        stock = [self.alone(length) for length in lengths]
        self.stock(False)
        self.engine.use(algorithm, **ALGORITHMS[algorithm])
        ours = [self.alone(length) for length in lengths]
        together, rounds = self.together(lengths)
        return {
            "stock": [ids for ids, _, _ in stock],
            "alone": [ids for ids, _, _ in ours],
            "together": together,
            "kv": max(
                float((a - b).abs().max())
                for (_, a, _), (_, b, _) in zip(stock, ours, strict=True)
                if a is not None and b is not None
            ),
            "rounds": {"stock": stock[-1][2], "ours": ours[-1][2]},
            "rows": rounds,
            "free": self.engine.free_tokens() - self.free,
        }

    def aborts(self) -> dict[str, Any]:
        """A prompt of several extents ended after each of its rounds, beside a running stream."""
        self.engine.use("LowConfidence", **ALGORITHMS["LowConfidence"])
        lost = []
        with torch.inference_mode():
            for rounds in range(6):
                beside = [self.engine.ask(self.prompt(33), ANSWER), self.engine.ask(self.prompt(5), ANSWER)]
                self.engine.round()
                request = self.engine.ask(self.prompt(400), ANSWER)
                for _ in range(rounds):
                    self.engine.round()
                self.engine.abort(request)
                self.engine.run(beside)
                self.engine.flush()
                lost.append(self.free - self.engine.free_tokens())
        return {"lost": lost}

    def pressure(self) -> dict[str, Any]:
        """More prompts and answers than the KV cache holds at once."""
        self.engine.use("LowConfidence", **ALGORITHMS["LowConfidence"])
        lengths = (450, 445, 440, 300, 305, 64, 33)
        self.stock(True)
        expected = [self.alone(length)[0] for length in lengths]
        self.stock(False)
        seen, _ = self.together(lengths)
        return {"expected": expected, "seen": seen, "needed": sum(lengths) + ANSWER * len(lengths)}

    def fallbacks(self) -> dict[str, Any]:
        from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend
        from sglang.srt.plugins.hook_registry import HookRegistry
        from sglang.srt.runtime_context import get_exec

        from worker.dllm.prefill import rounds

        self.engine.use("LowConfidence", **ALGORITHMS["LowConfidence"])
        runner = self.engine.scheduler.tp_worker.model_runner
        found: dict[str, Any] = {"none": self.decide()}
        HookRegistry._patched.discard(rounds.TARGET)
        found["hook"] = self.decide()
        HookRegistry._patched.add(rounds.TARGET)
        backend, runner.prefill_attention_backend_str = runner.prefill_attention_backend_str, "other"
        found["backend"] = self.decide()
        runner.prefill_attention_backend_str = backend
        with get_exec().deterministic.override(enable_deterministic_inference=True):
            found["deterministic"] = self.decide()
        forward = TorchNativeAttnBackend.forward_extend
        TorchNativeAttnBackend.forward_extend = written_last(forward)
        found["stale KV"] = self.decide()
        found["answer"] = self.alone(300)[0]
        TorchNativeAttnBackend.forward_extend = forward
        found["expected"] = self.alone(300)[0]
        found["again"] = self.decide()
        found["free"] = self.engine.free_tokens() - self.free
        return found

    def decide(self) -> dict[str, Any]:
        """The start-up decision, taken once more."""
        from worker.dllm.prefill import self_test

        warnings: list[str] = []
        handler = logging.Handler(logging.WARNING)
        handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger(self_test.__name__).addHandler(handler)
        self.engine.config.algorithm_config |= {"prompt_rows": ALONE, "mixed_prompt_rows": MIXED}
        self_test.decide(None, self.engine.scheduler)
        logging.getLogger(self_test.__name__).removeHandler(handler)
        state = self.engine.scheduler.get_internal_state(None).internal_state["dllm_prefill"]
        return {"state": state, "warnings": warnings}


def written_last(original: Callable[..., Any]) -> Callable[..., Any]:
    """Attention in which a row does not see the rows before it in the same forward, as in a backend that
    writes KV after it reads: the rows are computed one by one, the last one first."""

    def forward_extend(backend: Any, q: Any, k: Any, v: Any, layer: Any, batch: Any, **options: Any) -> Any:
        output = torch.empty_like(q)
        for row in reversed(range(batch.batch_size)):
            tokens = slice(row * BLOCK, (row + 1) * BLOCK)
            one = copy.copy(batch)
            one.out_cache_loc = batch.out_cache_loc[tokens]
            for name in ("req_pool_indices", "seq_lens", "extend_prefix_lens", "extend_seq_lens"):
                setattr(one, name, getattr(batch, name)[row : row + 1])
            output[tokens] = original(backend, q[tokens], k[tokens], v[tokens], layer, one, **options)
        return output

    return forward_extend


def main() -> None:
    folder, server_args = Path(sys.argv[1]), json.loads(sys.argv[2])
    scenarios = Scenarios(start(folder, server_args))
    result = {
        "in_force": [scenarios.ours.alone, scenarios.ours.mixed],
        "slots": scenarios.engine.config.max_running_requests,
        "LowConfidence": scenarios.equal("LowConfidence", (*LENGTHS, int(sys.argv[3]))),
        "JointThreshold": scenarios.equal("JointThreshold", SHORTER),
        "PerRequest": scenarios.equal("PerRequest", SHORTER),
        "aborts": scenarios.aborts(),
        "pressure": scenarios.pressure(),
        "fallbacks": scenarios.fallbacks(),
    }
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
