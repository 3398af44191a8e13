"""What concerns every answer of an application, whoever gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from gateway.http.cors import Cors
from gateway.http.request_id import RequestIds


class Application(FastAPI):
    def __init__(self, *, cors_origins: Sequence[str] = (), **described: Any) -> None:
        super().__init__(**described)
        self._cors_origins = cors_origins

    def build_middleware_stack(self) -> ASGIApp:
        """Stands before the keys, as browsers send none with a preflight, and before FastAPI's answer to an
        exception."""
        app = super().build_middleware_stack()
        return RequestIds(Cors(app, self._cors_origins) if self._cors_origins else app)
