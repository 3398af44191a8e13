"""The newest OpenAI SDKs, Python and Node, on every row of docs/api.md's table: see tests/conformance."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

import jsonschema
import pytest
import tokenizers

from loadtest.local_stack import LocalStack
from tests.conformance import programs
from tests.conformance.case import BASE, RENDERED, SAME, TOKENS, Answers, Case, Refused
from tests.conformance.cases import all_cases
from tests.conformance.described import Described
from tests.conformance.seen import Seen, read
from tests.conformance.table import AUTOREGRESSIVE, DIFFUSION, GENERATE, cells
from tests.stack import conditions

ALL = os.environ.get("DLLM_TEST_CONFORMANCE") == "all"
SDKS = {"python": "openai_python.py", "node": "openai_node.mjs"}
# What the SDKs raise, by HTTP status.
_CLASSES = {
    400: "BadRequestError",
    404: "NotFoundError",
    504: "InternalServerError",
}
MODELS = {DIFFUSION: conditions.DIFFUSION, AUTOREGRESSIVE: conditions.AUTOREGRESSIVE}
CASES = {case.name: case for case in all_cases()}

FIGURES: list[str] = []

LIMIT_S = 1200 if ALL else 300

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


@dataclass(frozen=True)
class Run:
    """All cases by one SDK.

    Attributes:
        seen: (name of a case, whether it was asked to stream) -> what was seen.
        usual: (kind of the model, path, whether streamed) -> the answer to the usual request.
        named: path -> the parameters that the SDK's method names, where it can be asked.
    """

    seen: dict[tuple[str, bool], Seen]
    usual: dict[tuple[str, str, bool], Seen]
    named: dict[str, list[str]]


def _ways(case: Case) -> list[tuple[str, bool]]:
    """By which SDKs it is asked, and whether to stream; in a short run each case goes one of the ways."""
    modes = [False, True] if case.streams else [False]
    ways = [(sdk, stream) for sdk in SDKS for stream in modes if sdk == "python" or shutil.which("node")]
    if ALL or not case.parameter:
        return ways
    return [ways[crc32(case.name.encode()) % len(ways)]]


def _ask(sdk: str, stack: LocalStack, kinds: list[str]) -> tuple[Run, str]:
    """And the SDK's version."""
    usual = [Case(path, "", {}, SAME, model=model) for path in BASE for model in kinds]
    asked = [(case, stream) for case in [*usual, *all_cases()] for by, stream in _ways(case) if by == sdk]
    questions = [
        {"path": case.path, "body": case.body(MODELS[case.model], stream=stream), "raw": case.raw}
        for case, stream in asked
    ]
    told = programs.run(
        "sdks",
        SDKS[sdk],
        {"base_url": f"{stack.gateway_url}/v1", "questions": questions},
        timeout_s=LIMIT_S - 20,
    )
    seen = [(question, read(each)) for question, each in zip(asked, told["seen"], strict=True)]
    return (
        Run(
            {(case.name, stream): each for (case, stream), each in seen if case.parameter},
            {(case.model, case.path, stream): each for (case, stream), each in seen if not case.parameter},
            told.get("parameters", {}),
        ),
        told["version"],
    )


@pytest.fixture(scope="module")
def runs(running_stack: LocalStack) -> dict[str, Run]:
    running_stack.wait_for_workers()
    found = {}
    for sdk in dict(_ways(Case(GENERATE, "", {}, SAME))):
        began = time.monotonic()
        found[sdk], version = _ask(sdk, running_stack, list(MODELS))
        count, seconds = len(found[sdk].seen), time.monotonic() - began
        FIGURES.append(f"openai-{sdk} {version}: {count} requests in {seconds:.0f} s")
    return found


@pytest.mark.parametrize("name", CASES)
def test_case(runs: dict[str, Run], name: str) -> None:
    case = CASES[name]
    gists = {}
    for sdk, stream in _ways(case):
        seen = runs[sdk].seen[name, stream]
        where = f"{name} by {sdk}, {'streamed' if stream else 'at once'}"
        if isinstance(case.expect, Refused):
            assert _refusal(seen) == _expected(case.expect), where
            continue
        assert seen.error is None, f"{where}: {seen.error}"
        usual = runs[sdk].usual[case.model, case.path, stream]
        if case.expect.same:
            assert seen.gist() == usual.gist(), where
        if case.expect.check is not None:
            case.expect.check(seen, usual)
        gists[where] = seen.gist()
    if isinstance(case.expect, Answers) and not case.expect.varies:
        assert len({repr(gist) for gist in gists.values()}) <= 1, gists


def test_what_is_told_is_what_openapi_says(runs: dict[str, Run]) -> None:
    """As openai-node passes it on, unchanged."""
    described = Described()
    for (name, stream), seen in runs["node" if "node" in runs else "python"].seen.items():
        for event in seen.events:
            check = described.check_event if seen.streamed else described.check_document
            try:
                check(CASES[name].path, event)
            except jsonschema.ValidationError as error:
                pytest.fail(f"{name}, stream={stream}: {error.message} at {error.json_path}")


def _refusal(seen: Seen) -> object:
    return seen.error and {
        name: seen.error.get(name) for name in ("class", "status", "code", "param", "type")
    }


def _expected(refused: Refused) -> object:
    return {
        "class": _CLASSES[refused.status],
        "status": refused.status,
        "code": refused.code,
        "param": refused.param,
        "type": refused.type,
    }


def test_the_usual_answer_is_the_same_by_every_endpoint_and_sdk(runs: dict[str, Run]) -> None:
    for kind in MODELS:
        gists = {
            repr(seen.gist())
            for run in runs.values()
            for (model, *_), seen in run.usual.items()
            if model == kind
        }
        assert len(gists) == 1, gists


def test_usage_counts_the_tokens(stack: LocalStack, runs: dict[str, Run]) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(f"{stack.checkpoint}/tokenizer.json")
    prompt = len(tokenizer.encode(RENDERED, add_special_tokens=False).ids)
    for (model, *_), seen in runs["python"].usual.items():
        if model != DIFFUSION:
            continue
        assert seen.usage is not None
        assert (seen.usage["prompt_tokens"], seen.tokens) == (prompt, TOKENS)
    (answer,) = runs["python"].usual[DIFFUSION, GENERATE, False].choices
    assert tokenizer.decode(answer.token_ids) == answer.text
    assert len(answer.token_ids) == TOKENS


def test_every_parameter_of_the_sdk_is_in_the_table(runs: dict[str, Run]) -> None:
    known = {(cell.path, cell.parameter) for cell in cells() if cell.kind != "refused"}
    strange = [
        (path, name)
        for path, names in runs["python"].named.items()
        for name in names
        if (path, name) not in known
    ]
    assert strange == []


def test_figures(runs: dict[str, Run], record: Callable[[str], None]) -> None:
    for line in FIGURES:
        record(line)
    record(f"{len(CASES)} cases over {len(cells())} cells of the table")
