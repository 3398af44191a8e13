"""Arithmetic that the demo model has learned, as GSM8K writes questions: `python -m models.demo.questions`.

Writes the set of `dllm-stack eval`. The items are held out: none was trained on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from models.demo.data import arithmetic, arithmetic_wordings, corpus

FILE = Path(__file__).resolve().parents[2] / "dllm_stack/eval/arithmetic.jsonl"
COUNT = 200
_BEFORE, _AFTER = arithmetic_wordings.CONCLUSION["en"].split("{}")


def lines() -> Iterator[str]:
    """Those whose result is a whole number from 0: of a sign or a remainder the counting knows nothing."""
    found = 0
    for example in corpus.held_out(arithmetic.SKILL, "en", 4 * COUNT):
        *steps, last = example.answer.split("\n")
        result = last.removeprefix(_BEFORE).removesuffix(_AFTER)
        if not result.isdigit():
            continue
        answer = "\n".join([*steps, f"#### {result}"])
        yield json.dumps({"question": example.messages[-1]["content"], "answer": answer})
        found += 1
        if found == COUNT:
            return


def main() -> None:
    FILE.write_text("".join(f"{line}\n" for line in lines()), "utf-8")
    print(f"Written: {FILE}")


if __name__ == "__main__":
    main()
