"""What `helm test` runs: streams a chat from each model, with nothing but Python's own library.

    stream_chat.py SECONDS URL MODEL...

API_KEY is sent if it is there. MAKE_KEY=1: a key is made in Redis for this test, and its tenant removed.
Exit status 1, and why, when a model has not answered after that many seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

_TENANT = "helm-test"
_PAUSE_S = 2
_LATER = {404, 429, 503}  # a worker that has not told its model yet, or loads
_NEW_KEY = 401  # a gateway that has not heard of it yet


class NoAnswer(Exception):
    """Why there is none."""


def stream(url: str, model: str, key: str | None) -> str:
    """The text of an answer that came in pieces, as it should.

    Raises:
        NoAnswer: it did not.
    """
    body = {
        "model": model,
        "stream": True,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "Count from 1 to 5."}],
    }
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
    pieces, reason, done = [], None, False
    with urllib.request.urlopen(request) as answer:
        for line in answer:
            if not line.startswith(b"data: "):
                continue  # a comment, which keeps the connection, or the end of an event
            data = line.removeprefix(b"data: ").strip()
            if data == b"[DONE]":
                done = True
                break
            event = json.loads(data)
            if "error" in event:
                raise NoAnswer(f"error event: {event['error']['message']}")
            for choice in event["choices"]:
                pieces.append(choice["delta"].get("content") or "")
                reason = choice["finish_reason"] or reason
    if not done or reason is None:
        raise NoAnswer("the stream broke off")
    if not "".join(pieces):
        raise NoAnswer("the answer is empty")
    return "".join(pieces)


def ask(url: str, model: str, key: str | None, later: set[int], until: float) -> None:
    """
    Args:
        later: statuses that say nothing yet.
        until: time of the monotonic clock after which there is no further try.

    Raises:
        NoAnswer: to the last try.
    """
    while True:
        began = time.monotonic()
        try:
            text = stream(url, model, key)
            print(f"{model}: {time.monotonic() - began:.1f} s: {text!r}", flush=True)
            return
        except urllib.error.HTTPError as error:
            why = f"HTTP {error.code}: {error.read(1000).decode(errors='replace')}"
            final = error.code not in later
        except OSError as error:
            why, final = str(error), False
        if final or time.monotonic() > until:
            raise NoAnswer(why)
        print(f"{model}: not yet: {why}", flush=True)
        time.sleep(_PAUSE_S)


@contextmanager
def key_for_test(make: bool) -> Iterator[str | None]:
    if not make:
        yield os.environ.get("API_KEY")
        return
    create = ["dllm-stack", "keys", "create", _TENANT, "--expires", "1h"]
    yield subprocess.run(create, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    subprocess.run(["dllm-stack", "tenants", "delete", _TENANT], check=True, stdout=subprocess.DEVNULL)


def main(seconds: str, url: str, *models: str) -> int:
    until = time.monotonic() + float(seconds)
    make = os.environ.get("MAKE_KEY") == "1"
    later = _LATER | {_NEW_KEY} if make else _LATER
    with key_for_test(make) as key:
        for model in models:
            try:
                ask(url, model, key, later, until)
            except NoAnswer as error:
                print(f"{model}: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
