"""python -m worker.tiny_checkpoint DIR"""

import argparse
from pathlib import Path

from worker.tiny_checkpoint import write

parser = argparse.ArgumentParser(
    prog="python -m worker.tiny_checkpoint",
    description="Write a tiny checkpoint with random weights: its text is noise.",
)
parser.add_argument("folder", type=Path)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--autoregressive", action="store_true", help="Qwen3's architecture instead of LLaDA2's")
arguments = parser.parse_args()
print(write(arguments.folder, arguments.seed, autoregressive=arguments.autoregressive))
