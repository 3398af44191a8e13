"""Every path of the gateway, as the OpenAPI document describes it."""

from __future__ import annotations

from dllm_stack.exposition import CONTENT_TYPE_LATEST
from gateway.chat import protocol as chat
from gateway.completions import protocol as completions
from gateway.detokenize import protocol as detokenize
from gateway.generate import protocol as generate
from gateway.health import Status
from gateway.models.protocol import Model, ModelList
from gateway.openapi.document import ASKING, GENERATING, INQUIRING, NAMING, PROBING, Operation
from gateway.tokenize import protocol as tokenize

OPENAI, SGLANG, SERVICE = "OpenAI", "SGLang", "Service"

OPERATIONS: dict[str, Operation] = {
    "/v1/chat/completions": Operation(
        OPENAI,
        "An answer to a conversation",
        chat.ChatCompletion,
        GENERATING,
        event=chat.Chunk,
        rules=chat.RULES,
    ),
    "/v1/completions": Operation(
        OPENAI,
        "Text that goes on from a prompt",
        completions.Completion,
        GENERATING,
        event=completions.Completion,
        rules=completions.RULES,
    ),
    "/v1/models": Operation(OPENAI, "The models that workers have announced", ModelList, ASKING),
    "/v1/models/{name}": Operation(OPENAI, "One model", Model, NAMING),
    "/generate": Operation(
        SGLANG,
        "Text or token ids that go on from a prompt",
        generate.Generated | list[generate.Generated],
        GENERATING,
        event=generate.Generated,
        rules=generate.RULES,
    ),
    "/tokenize": Operation(
        SGLANG,
        "The tokens of a prompt or a conversation",
        tokenize.Tokenized,
        INQUIRING,
        rules=tokenize.RULES,
    ),
    "/detokenize": Operation(
        SGLANG, "The text of tokens", detokenize.Detokenized, INQUIRING, rules=detokenize.RULES
    ),
    "/healthz": Operation(SERVICE, "The process lives", Status, PROBING),
    "/readyz": Operation(SERVICE, "It may be sent requests", Status, PROBING, otherwise={503: Status}),
    "/metrics": Operation(SERVICE, "Metrics for Prometheus", CONTENT_TYPE_LATEST, PROBING),
}
