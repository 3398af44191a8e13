"""How many denoise steps the demo model's blocks take: `python -m loadtest.simulator.acceptance`.

Prints the `steps` of a table: of held-out questions, answered by LowConfidence at 0.95 to their ends. A first
block, of which a part is the prompt's, counts as if it had gone on so for a whole one. An engine takes the
same steps.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter

import torch

from loadtest.gpu.questions import CHECKPOINT, Questions
from loadtest.simulator.voice import BLOCK
from models.demo import checkpoint
from models.demo.decoding import Decoder, LowConfidence

_MAX_BLOCKS = 16
_AT_ONCE = 32


def count(questions: int) -> Counter[int]:
    """Args: questions: of every skill in either language."""
    decoder = Decoder(checkpoint.load(CHECKPOINT), LowConfidence())
    asked = [each.prompt for each in Questions().held_out(questions)]
    end: int = json.loads((CHECKPOINT / "config.json").read_text())["eos_token_id"]
    steps: Counter[int] = Counter()
    for begin in range(0, len(asked), _AT_ONCE):
        going = asked[begin : begin + _AT_ONCE]
        for _ in range(_MAX_BLOCKS):
            blocks = decoder.start(going)
            filled = decoder.fill(blocks)
            # The last forward of a block stores its KV.
            steps.update(((filled.forwards - 1) * BLOCK // blocks.open.sum(dim=1)).tolist())
            ids = filled.ids.masked_fill(~blocks.open, -1).tolist()
            pairs = zip(filled.context, filled.ids.tolist(), ids, strict=True)
            going = [[*context, *block] for context, block, answered in pairs if end not in answered]
            if not going:
                break
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--questions", type=int, default=8, help="of every skill in either language")
    with torch.inference_mode():
        steps = count(parser.parse_args().questions)
    print(json.dumps({str(each): steps[each] for each in sorted(steps)}))


if __name__ == "__main__":
    main()
