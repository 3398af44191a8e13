"""Runs the simulator: `python -m loadtest.simulator --port PORT`."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

import uvloop

from loadtest.simulator.engine import Pace, SimulatedEngine
from loadtest.simulator.fixed import FixedPace
from loadtest.simulator.http import listen
from loadtest.simulator.rounds import MeasuredPace
from loadtest.simulator.server import Server
from loadtest.simulator.table import TABLES, Table
from loadtest.simulator.voice import Voice
from worker.dllm.settings import NAME as PER_REQUEST
from worker.prompt import Renderer

CHECKPOINT = Path(__file__).resolve().parents[2] / "models/demo/checkpoint"
SLOTS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description="Speaks SGLang's HTTP, and is no engine.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT, help="whose tokenizer it uses")
    parser.add_argument("--slots", type=int, default=SLOTS)
    parser.add_argument(
        "--table",
        help=f"the pace of a measured engine, in place of the next two: {_names()}, or a file",
    )
    parser.add_argument("--block-ms", type=float, default=FixedPace.block_s * 1000)
    parser.add_argument(
        "--prefill-ms", type=float, default=FixedPace.prefill_s * 1000, help="a block of the prompt"
    )
    parser.add_argument("--seed", type=int, default=0, help="of how many forwards each block takes")
    parser.add_argument(
        "--shared-by", type=int, default=1, help="workers, each told of its share of the slots"
    )
    arguments = parser.parse_args()
    try:
        uvloop.run(_serve(arguments))
    except (ValueError, OSError) as error:
        sys.exit(f"simulator: {error}")


async def _serve(arguments: argparse.Namespace) -> None:
    config = json.loads((arguments.checkpoint / "config.json").read_text())
    renderer = Renderer.load(str(arguments.checkpoint), None, config["vocab_size"])
    pace: Pace = FixedPace(arguments.block_ms / 1000, arguments.prefill_ms / 1000)
    algorithm = "LowConfidence"
    if arguments.table is not None:
        # With it there are forwards to tell of, as only the extension's algorithm does.
        pace, algorithm = MeasuredPace(Table.read(arguments.table)), PER_REQUEST
    engine = SimulatedEngine(Voice(arguments.checkpoint, arguments.seed), arguments.slots, pace)
    context = config["max_position_embeddings"]
    server = Server(engine, renderer, context, arguments.shared_by, algorithm)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    listener = await listen(server, "127.0.0.1", arguments.port)
    await ended.wait()
    listener.close()


def _names() -> str:
    return ", ".join(sorted(each.stem for each in TABLES.glob("*.json")))


if __name__ == "__main__":
    main()
