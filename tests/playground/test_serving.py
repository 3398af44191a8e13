"""The page's files as they are served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dllm_stack.settings import GatewaySettings, Settings
from gateway.playground import routes
from tests.gateway.served import Served, serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

STATIC = Path(routes.__file__).parent / "static"
ASSETS = sorted(path.name for path in STATIC.iterdir() if path.name != "index.html")
MOST_BYTES = 64 << 10  # of all files together


async def test_the_page_and_all_it_loads_are_served(served: Served) -> None:
    answer = await served.http.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.content == (STATIC / "index.html").read_bytes()
    types = {
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
    }
    for name in ASSETS:
        asset = await served.http.get(f"/playground/{name}")
        assert (asset.status_code, asset.headers["content-type"]) == (200, types[Path(name).suffix])
        assert asset.content == (STATIC / name).read_bytes()


async def test_it_is_small_and_loads_nothing_from_elsewhere() -> None:
    texts = {path.name: path.read_text() for path in STATIC.iterdir()}
    assert sum(len(text.encode()) for text in texts.values()) < MOST_BYTES
    addresses = {
        url for text in texts.values() for url in re.findall(r"\b(?:https?:)?//[a-z][^\s\"'`]*", text)
    }
    assert addresses <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("path", ["/", "/playground/main.js"])
async def test_what_a_browser_has_is_not_sent_again(served: Served, path: str) -> None:
    first = await served.http.get(path)
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}'):
        again = await served.http.get(path, headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    changed = await served.http.get(path, headers={"if-none-match": '"other"'})
    assert (changed.status_code, changed.content) == (200, first.content)
    head = await served.http.head(path)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
    assert head.headers["content-length"] == str(len(first.content))


async def test_the_policy_allows_no_more_than_the_page_itself(served: Served) -> None:
    for path in ("/", "/playground/main.js"):
        headers = (await served.http.get(path)).headers
        policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert {policy[f"{kind}-src"] for kind in ("script", "style", "img", "connect")} == {"'self'"}
        assert policy["require-trusted-types-for"] == "'script'"
        assert {policy[kind] for kind in ("base-uri", "form-action", "frame-ancestors", "trusted-types")} == {
            "'none'"
        }
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("name", ["nothing.js", "index.html", "..%2Froutes.py", "%2E%2E/routes.py", "static"])
async def test_nothing_else_is_served(served: Served, name: str) -> None:
    answer = await served.http.get(f"/playground/{name}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_it_can_be_left_out(settings: Settings) -> None:
    without = settings.model_copy(update={"gateway": GatewaySettings(playground=False)})
    async with serving(without) as served:
        assert [(await served.http.get(path)).status_code for path in ("/", "/playground/main.js")] == [
            404,
            404,
        ]
