"""Runs the simulator: `python -m loadtest.simulator --port PORT`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import uvicorn

from loadtest.simulator.engine import Pace, SimulatedEngine
from loadtest.simulator.server import Server
from loadtest.simulator.voice import Voice
from worker.prompt import Renderer

CHECKPOINT = Path(__file__).resolve().parents[2] / "models/demo/checkpoint"


def main() -> None:
    parser = argparse.ArgumentParser(description="Speaks SGLang's HTTP, and is no engine.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT, help="whose tokenizer it uses")
    parser.add_argument("--slots", type=int, default=Pace.slots)
    parser.add_argument("--block-ms", type=float, default=Pace.block_s * 1000)
    parser.add_argument(
        "--prefill-ms", type=float, default=Pace.prefill_s * 1000, help="a block of the prompt"
    )
    parser.add_argument(
        "--shared-by", type=int, default=1, help="workers, each told of its share of the slots"
    )
    arguments = parser.parse_args()
    config = json.loads((arguments.checkpoint / "config.json").read_text())
    renderer = Renderer.load(str(arguments.checkpoint), None, config["vocab_size"])
    pace = Pace(arguments.slots, arguments.block_ms / 1000, arguments.prefill_ms / 1000)
    engine = SimulatedEngine(Voice(arguments.checkpoint), pace)
    server = Server(engine, renderer, config["max_position_embeddings"], arguments.shared_by)
    uvicorn.run(server, port=arguments.port, log_level="warning", lifespan="off", ws="none")


if __name__ == "__main__":
    main()
