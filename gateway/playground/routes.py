"""The page at `/`: a chat for people. It and all that it loads come from this package."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

# What a model writes is inserted as text only. Should the page ever fail in that, the browser would still run
# nothing that does not come from here, write no HTML (trusted types) and send nothing anywhere else.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

_HEADERS = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-cache",  # kept, and asked for each time: a new version is seen at once
}


class File:
    """One file of the page, as it is served."""

    def __init__(self, path: Path) -> None:
        self._body = path.read_bytes()
        self._tag = f'"{hashlib.sha256(self._body).hexdigest()[:32]}"'
        self._headers = {**_HEADERS, "content-type": _MEDIA_TYPES[path.suffix], "etag": self._tag}

    def answer(self, request: Request) -> Response:
        known = request.headers.get("if-none-match", "")
        if self._tag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
            return Response(status_code=304, headers=self._headers)
        return Response(self._body, headers=self._headers)


_FILES = {path.name: File(path) for path in _FOLDER.iterdir()}
_PAGE = _FILES.pop("index.html")

PATHS = frozenset({"/", *(f"/playground/{name}" for name in _FILES)})

# No part of the API, and so not of its description.
router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    return _PAGE.answer(request)


@router.api_route("/playground/{name}", methods=["GET", "HEAD"])
async def file(name: str, request: Request) -> Response:
    if name not in _FILES:
        raise HTTPException(404)
    return _FILES[name].answer(request)
