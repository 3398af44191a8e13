"""What a body costs to read."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Scope

from dllm_stack.outcomes import RequestError
from dllm_stack.tenants import Tenant
from gateway.chat.prompt import chat_prompt
from gateway.chat.protocol import FunctionCall, Message
from gateway.gateway import Gateway
from gateway.http.body import MAX_PARTS, decode_json, parts_of
from gateway.inquiry import Inquiry
from gateway.intake import understand
from gateway.record import Record
from tests.gateway.served import Served

SCOPE: Scope = {"type": "http", "method": "POST", "path": "/generate", "headers": []}
MANY = ",".join(["[]"] * MAX_PARTS)

Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('"\\[]{},:a\n\u2028é')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('"\\[{a')), inner),
)


async def test_garbage_is_not_collected_while_a_document_is_made_and_checked(served: Served) -> None:
    """It would take longer than all the rest."""
    collected: list[str] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        collected.append(phase)

    async def interpret(asked: Any, gateway: Gateway, request_id: str, tenant: Tenant) -> Inquiry:
        assert len(asked["text"]) == MAX_PARTS - 100
        assert not collected
        assert not gc.isenabled()
        raise LookupError

    record = Record(served.gateway, "generate", SCOPE)
    body = b'{"text": [%s]}' % ",".join(["[]"] * (MAX_PARTS - 100)).encode()
    gc.collect()
    gc.callbacks.append(note)
    try:
        with pytest.raises(LookupError):
            await understand(body, interpret, served.gateway, Tenant(name="any"), record)
    finally:
        gc.callbacks.remove(note)
    assert gc.isenabled()


@given(Json)
def test_parts_are_counted_as_they_are(document: Any) -> None:
    assert parts_of(json.dumps(document, ensure_ascii=False).encode()) == _parts(document)
    assert parts_of(json.dumps(document, indent=1).encode()) == _parts(document)


def _parts(document: Any) -> int:
    match document:
        case str():
            return 1
        case list():
            return 1 + sum(map(_parts, document))
        case dict():
            return 1 + sum(1 + _parts(value) for value in document.values())
        case _:
            return 0


@pytest.mark.parametrize(
    "body",
    [f"[{MANY}]", "{" + ",".join(['"a":0'] * (MAX_PARTS + 1)) + "}", "[" * (MAX_PARTS + 1)],
    ids=["arrays", "names", "not even JSON"],
)
def test_a_body_of_too_many_parts_is_refused_before_they_are_made(body: str) -> None:
    with pytest.raises(RequestError, match="at most 100000 strings, arrays and objects") as error:
        decode_json(body.encode())
    assert error.value.problem.status == 413


def test_what_a_text_holds_is_no_part() -> None:
    text = '{"[\\' * MAX_PARTS
    assert decode_json(json.dumps({"prompt": text}).encode()) == {"prompt": text}


def test_parts_within_the_arguments_of_calls_count_together() -> None:
    function = FunctionCall(name="look", arguments=f"[{MANY[: 2 * MAX_PARTS]}]")
    few: list[Message] = [
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    ]
    with pytest.raises(RequestError, match="messages must have calls with at most"):
        chat_prompt(few * 3, None)
