"""One request's trace, from its client to its engine, and what its log lines say."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from dllm_stack.messages import Trace
from dllm_stack.redis import Connections
from dllm_stack.settings import RedisSettings, TracingSettings
from dllm_stack.tracing import read, written
from loadtest.fleet import POOL
from tests.tracing.collector import Collector
from tests.tracing.conftest import Stack, running

TRACE_ID, CLIENT_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{CLIENT_SPAN}-01"
SECRET = "xylophone-quagmire"
CHAT: dict[str, Any] = {
    "model": POOL,
    "messages": [{"role": "user", "content": SECRET}],
    "max_tokens": 80,
    "stream_options": {"include_usage": True},
    "stream": True,
}


async def test_one_trace_from_the_client_to_the_engine(
    connections: Connections, redis_settings: RedisSettings, tmp_path: Path, collector: Collector
) -> None:
    tracing = TracingSettings(endpoint=collector.url, timeout_s=60)
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        async with running(redis_settings, tmp_path, tracing) as stack:
            answer = await stack.served.http.post(
                "/v1/chat/completions", json=CHAT, headers={"traceparent": TRACEPARENT, "tracestate": "a=b"}
            )
            assert answer.status_code == 200, answer.text
            [at_engine] = stack.engine.traceparents
    root, attempt = collector.named(f"chat {POOL}"), collector.named("attempt")
    engine = collector.named(f"text_completion {POOL}")
    below = {span.name: span.parent for span in collector.spans}
    assert below == {
        root.name: CLIENT_SPAN,
        "admission": root.id,
        "queue": root.id,
        "attempt": root.id,
        "relay": root.id,
        "prompt": attempt.id,
        engine.name: attempt.id,
    }
    assert {span.trace_id for span in collector.spans} == {TRACE_ID}
    services = {span.name: span.service for span in collector.spans}
    assert (services["admission"], services["queue"], services["prompt"]) == (
        "dllm-gateway",
        "dllm-router",
        "dllm-worker",
    )
    assert at_engine == f"00-{TRACE_ID}-{engine.id}-01"
    assert answer.headers["traceresponse"] == f"00-{TRACE_ID}-{root.id}-01"

    blocks = [[told["dllm.tokens"] for _, told in span.events] for span in (engine, collector.named("relay"))]
    assert blocks[0] == blocks[1]
    assert (sum(blocks[0]), max(blocks[0])) == (80, 32)
    said = root.attributes
    assert said["gen_ai.operation.name"] == "chat"
    assert said["gen_ai.request.model"] == POOL
    assert said["gen_ai.request.max_tokens"] == 80
    assert said["gen_ai.usage.output_tokens"] == 80
    assert said["gen_ai.usage.input_tokens"] == engine.attributes["gen_ai.usage.input_tokens"]
    assert said["gen_ai.response.finish_reasons"] == ["length"]
    assert said["http.response.status_code"] == 200
    assert said["dllm.request.id"] == answer.headers["x-request-id"]
    assert not any(span.is_error for span in collector.spans)
    # When the queue's span began, the router reckons from Redis' word, and from when it hears that.
    admission, queued, relay = map(collector.named, ("admission", "queue", "relay"))
    slack = 2_000_000  # ns
    assert all(a.began <= b.began + slack for a, b in pairwise([root, admission, attempt, engine, relay]))
    assert admission.began <= queued.began + slack
    assert all(span.began <= span.ended for span in collector.spans)
    assert all(span.ended <= root.ended + slack for span in (admission, relay))

    ids = {"request": answer.headers["x-request-id"], "trace": TRACE_ID}
    of_request = [line for line in lines if line["event"] in ("dispatched", "run ended", "request ended")]
    assert len(of_request) == 3
    assert [{key: line.get(key) for key in ids} for line in of_request] == [ids] * 3
    assert SECRET not in repr(lines)
    assert SECRET.encode() not in collector.received


async def test_what_was_refused_has_its_reason(traced: Stack, collector: Collector) -> None:
    body = CHAT | {"logit_bias": {"1": 2}}
    answer = await traced.served.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    await asyncio.to_thread(traced.served.gateway.tracer.close)
    refused = collector.named("chat")
    assert (refused.parent, refused.is_error) == ("", True)
    assert refused.attributes["error.type"] == "unsupported_parameter"
    assert refused.attributes["http.response.status_code"] == 400
    # Its flags may say besides that the id is random.
    assert answer.headers["traceresponse"][:-2] == f"00-{refused.trace_id}-{refused.id}-"


async def test_what_the_client_does_not_sample_is_passed_on_and_not_kept(
    traced: Stack, collector: Collector
) -> None:
    headers = {"traceparent": TRACEPARENT[:-1] + "0"}
    answer = await traced.served.http.post("/v1/chat/completions", json=CHAT, headers=headers)
    assert answer.status_code == 200
    await asyncio.to_thread(traced.served.gateway.tracer.close)
    assert collector.spans == []
    [at_engine] = traced.engine.traceparents
    assert (at_engine[:36], at_engine[-2:]) == (f"00-{TRACE_ID}-", "00")


async def test_without_an_endpoint_a_clients_trace_still_reaches_the_engine(
    connections: Connections, redis_settings: RedisSettings, tmp_path: Path
) -> None:
    async with running(redis_settings, tmp_path, TracingSettings()) as stack:
        headers = {"traceparent": TRACEPARENT}
        answer = await stack.served.http.post("/v1/chat/completions", json=CHAT, headers=headers)
        assert "traceresponse" not in answer.headers
        assert stack.engine.traceparents == [TRACEPARENT]
        await stack.served.http.post("/v1/chat/completions", json=CHAT)
        assert stack.engine.traceparents == [TRACEPARENT]


def test_without_an_endpoint_opentelemetry_is_not_loaded() -> None:
    program = (
        "import sys; from dllm_stack.settings import Settings; import gateway.main, router.main, worker.main;"
        "from dllm_stack.tracing import OFF, tracer;"
        "assert tracer(Settings().tracing, 'gateway') is OFF;"
        "parts = 'opentelemetry.sdk.trace', 'opentelemetry.exporter';"  # redis-py loads others that it finds
        "assert not [name for name in sys.modules if name.startswith(parts)]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "header",
    [
        "",
        TRACEPARENT.upper(),
        TRACEPARENT[:-1],
        f"{TRACEPARENT}-more",
        f"ff{TRACEPARENT[2:]}",
        f"01{TRACEPARENT[2:]}more",
        f"00-{'0' * 32}-{CLIENT_SPAN}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        TRACEPARENT.replace("-", "_"),
    ],
)
def test_what_is_no_trace(header: str) -> None:
    assert read([header], []) is None


def test_what_is_a_trace() -> None:
    assert read([TRACEPARENT], ["a=1", "b=2"]) == Trace(TRACEPARENT, "a=1,b=2")
    assert read([f"cc{TRACEPARENT[2:]}-of-a-later-version"], []) == Trace(TRACEPARENT)
    assert read([TRACEPARENT], ["x" * 513]) == Trace(TRACEPARENT)
    assert read([TRACEPARENT, TRACEPARENT], []) is None
    trace = Trace(TRACEPARENT, "a=1")
    assert (trace.id, trace.is_sampled) == (TRACE_ID, True)
    assert written(trace) == {"traceparent": TRACEPARENT, "tracestate": "a=1"}
    assert written(None) == {}
