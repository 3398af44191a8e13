"""The answers to POST as the OpenAPI document describes them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from dllm_stack.outcomes import KINDS, ErrorCode
from dllm_stack.settings import Settings
from gateway.app import create_app
from gateway.openapi.operations import OPERATIONS


class Described:
    def __init__(self) -> None:
        document = create_app(Settings()).openapi()

        def validator(schema: dict[str, Any]) -> Any:
            return jsonschema.Draft202012Validator(schema | {"components": document["components"]})

        posts = {path: each["post"] for path, each in document["paths"].items() if "post" in each}
        self._answers = {
            (path, int(status), media): validator(content["schema"])
            for path, post in posts.items()
            for status, response in post["responses"].items()
            for media, content in response["content"].items()
        }
        self._events = {
            path: validator(_data_of(post["responses"]["200"]["content"]["text/event-stream"]["schema"]))
            for path, post in posts.items()
            if OPERATIONS[path].event is not None
        }

    def check(self, path: str, status: int, media: str, body: bytes) -> None:
        """
        Raises:
            jsonschema.ValidationError, KeyError, AssertionError: it is not as described.
        """
        if media == "text/event-stream":
            *events, done = [line for line in body.decode().split("\n\n") if line]
            assert done == "data: [DONE]"
            for event in events:
                self.check_event(path, json.loads(event.removeprefix("data: ")))
            return
        document = json.loads(body)
        self._answers[path, status, media].validate(document)
        if status != 200:
            assert KINDS[ErrorCode(document["error"]["code"])].status == status

    def check_document(self, path: str, document: Any) -> None:
        self._answers[path, 200, "application/json"].validate(document)

    def check_event(self, path: str, event: Any) -> None:
        self._events[path].validate(event)


def _data_of(event: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = event["properties"]["data"]["anyOf"][0]["contentSchema"]
    return schema
