"""python -m tests.engine.decoding.stock CHECKPOINT < asked: SGLang's own algorithms, without an engine.

To be run where SGLang can be imported. Reads a list of [decision, prompt, tokens], prints the answers' ids.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from sglang.srt.dllm.algorithm import algo_name_to_cls
from sglang.srt.dllm.config import DllmConfig

from dllm_stack.decoding import Decision, EngineOptions
from tests.engine.decoding.fake_scheduler import FakeRequest, FakeScheduler
from tests.engine.reference import Reference

Asked = tuple[Decision, list[int], int]


def main(checkpoint: Path) -> None:
    model = Reference(checkpoint)
    size, mask_id = model.config["block_size"], model.config["mask_token_id"]
    answers = []
    for decision, prompt, tokens in msgspec.json.decode(sys.stdin.read(), type=list[Asked]):
        config = DllmConfig(
            algorithm=decision.algorithm,
            algorithm_config=decision.parameters,
            block_size=size,
            mask_id=mask_id,
            max_running_requests=1,
            first_done_first_out_mode=True,
        )
        request = FakeRequest(prompt, EngineOptions(), tokens)
        FakeScheduler(model, algo_name_to_cls[decision.algorithm](config).run).decode([request])
        answers.append(request.output_ids[:tokens])
    print(msgspec.json.encode(answers).decode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
