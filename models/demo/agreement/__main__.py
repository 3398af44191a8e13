"""The command; see the package.

Exit status: 0, all answers are equal; 1, some differ or the engine failed; 2, the records cannot be
compared.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer

from models.demo import agreement, checkpoint
from models.demo.agreement import compare, record
from models.demo.agreement.engine import EngineError, Setup


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m models.demo.agreement",
        description=agreement.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    modes = parser.add_subparsers(required=True)
    run = modes.add_parser("run", help="start an engine, ask it, write what it answers")
    run.set_defaults(mode=_run)
    run.add_argument("checkpoint", type=Path)
    run.add_argument("record", type=Path, help="JSON file to write")
    run.add_argument("--device", choices=["cpu", "cuda"], required=True)
    run.add_argument("--dtype", choices=["float32", "bfloat16"], required=True)
    run.add_argument("--attention-backend", default="torch_native", help="SGLang's (default: %(default)s)")
    run.add_argument("--prompts", type=Path, metavar="RECORD", help="ask what another record was asked")
    run.add_argument("--threshold", type=float, default=0.9, help="of LowConfidence (default: %(default)s)")
    run.add_argument("--max-tokens", type=int, default=200, help="of an answer (default: %(default)s)")
    run.add_argument("--start-s", type=float, default=300, help="time to start (default: %(default)s)")
    run.add_argument("--log", type=Path, help="folder for the engine's files (default: a temporary one)")
    both = modes.add_parser("compare", help="print where two records differ, and how nearly they agreed")
    both.set_defaults(mode=_compare)
    both.add_argument("checkpoint", type=Path)
    both.add_argument("first", type=Path)
    both.add_argument("second", type=Path)
    arguments = parser.parse_args()
    # So that whoever ends this command ends its engine.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    status: int = arguments.mode(arguments)
    return status


def _run(arguments: argparse.Namespace) -> int:
    if arguments.prompts:
        asked = record.Record.read(arguments.prompts).prompts
    else:
        from models.demo.agreement.prompts import prompts  # the skills' data, needed for nothing else

        asked = prompts()
    setup = Setup(
        checkpoint=arguments.checkpoint.resolve(),
        device=arguments.device,
        dtype=arguments.dtype,
        attention_backend=arguments.attention_backend,
        threshold=arguments.threshold,
        slots=len(asked),
        start_s=arguments.start_s,
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.log or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            taken = record.take(setup, folder, asked, arguments.max_tokens)
        except EngineError as error:
            log = folder / "engine.log"
            print(log.read_text("utf-8", "replace")[-4000:], error, sep="\n", file=sys.stderr)
            return 1
    taken.write(arguments.record)
    _print(taken)
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    try:
        one, other = record.Record.read(arguments.first), record.Record.read(arguments.second)
        compare.check_comparable(one, other)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for taken in (one, other):
        _print(taken)
    model = checkpoint.load(arguments.checkpoint)
    tokenizer = Tokenizer.from_file(str(arguments.checkpoint / "tokenizer.json"))
    explanation = compare.Explanation(model, tokenizer, one.threshold)
    ids = [prompt.ids for prompt in one.prompts]
    print(*explanation.of_the_model(ids, one.alone), sep="\n")
    status = 0
    for way in ("alone", "together"):
        ours, theirs = getattr(one, way), getattr(other, way)
        found = compare.differences(ids, ours, theirs)
        print(f"\n{way}: {len(ids) - len(found)} of {len(ids)} equal")
        for difference in found:
            status = 1
            number = difference.prompt
            print(f"- {one.prompts[number].name}")
            for line in explanation.of(difference, ids[number], ours[number], theirs[number]):
                print(f"  {line}")
    return status


def _print(taken: record.Record) -> None:
    same = sum(a == b for a, b in zip(taken.alone, taken.together, strict=True))
    print(", ".join(f"{name} {value}" for name, value in taken.facts.items()))
    print(
        f"  {same} of {len(taken.prompts)} the same alone and together; "
        f"{sum(map(len, taken.alone))} tokens; {taken.seconds}"
    )


if __name__ == "__main__":
    sys.exit(main())
