"""What is said of a request's fields names them as the request does."""

from __future__ import annotations

import pytest

from dllm_stack.outcomes import ErrorCode, Problem
from gateway.fields.names import Names

GENERATE = Names("text", path="sampling_params.", dllm="sampling_params.custom_params.dllm")


@pytest.mark.parametrize(
    ("param", "named"),
    [
        ("messages", "text"),
        ("model", "model"),
        ("service_tier", "service_tier"),
        ("regex", "sampling_params.regex"),
        ("dllm.threshold", "sampling_params.custom_params.dllm.threshold"),
        (None, None),
    ],
)
def test_of_generate(param: str | None, named: str | None) -> None:
    problem = Problem(ErrorCode.INVALID_VALUE, "No.", param=param)
    assert GENERATE.put_into(problem).param == named
