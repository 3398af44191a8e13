"""A whole evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from dllm_stack.bench import server
from dllm_stack.bench.bar import bar
from dllm_stack.bench.http import connect, own_key
from dllm_stack.eval import exam
from dllm_stack.eval.exam import Asker
from dllm_stack.eval.notebook import Notebook
from dllm_stack.eval.questions import Exam


@dataclass(frozen=True)
class Setup:
    """Attributes are those of the command line."""

    base_url: str
    model: str | None
    num_questions: int
    parallel: int
    timeout_s: float
    output: Path | None
    progress: bool


async def run(given: Exam, setup: Setup, console: Console) -> int:
    """Prints the counts, also when it is interrupted.

    Returns: an exit status: 1, if some questions have no answer.

    Raises:
        Problem
    """
    headers = own_key()
    chosen = server.choose(await server.models(setup.base_url, headers), setup.model)
    model = setup.model or chosen.id
    settings = {
        "model": model,
        "questions": given.digest,
        "form": given.form.value,
        "num_shots": given.shots,
        "max_new_tokens": given.max_new_tokens,
    }
    numbers = list(range(min(setup.num_questions, len(given.questions))))
    with Notebook(setup.output, settings) as notebook:
        before = sum(number in notebook.done for number in numbers)
        if before:
            console.print(f"{before} of {len(numbers)} questions are done in {setup.output}.")
        try:
            async with connect(setup.timeout_s) as http:
                asker = Asker(
                    http,
                    setup.base_url,
                    {"Content-Type": "application/json"} | headers,
                    model,
                    setup.timeout_s,
                )
                with bar(console, "questions", len(numbers), before, shown=setup.progress) as advance:
                    failures = await exam.run(given, numbers, notebook, asker, setup.parallel, advance)
        finally:
            if any(number in notebook.done for number in numbers):
                print("\n".join(exam.lines(numbers, notebook)), flush=True)
        for failure in failures[:10]:
            console.print(failure, markup=False)
        if failures:
            console.print(f"{len(failures)} questions have no answer; the same command asks them again.")
        return 1 if failures else 0
