"""Secrets: how they are made, and what is kept of them.

    dk-0123456789abcdef-<43 characters of base64url: 256 random bits>
    `---- the id -----'

A digest is plain SHA-256. bcrypt and its like make guessing slow, for passwords that can be guessed. 256
random bits cannot: at 10^12 tries a second it takes 10^57 years. All that a slow hash would do here is cost
each request 100 ms of CPU, and whoever sends wrong keys could spend the gateway's on it.
"""

from __future__ import annotations

import hashlib
import re
import secrets

from dllm_stack.tenants import KEY_ID

ID_CHARACTERS = 19
MOST_CHARACTERS = 256  # a longer one is no key of ours, and not worth a hash

_BEGINS_WITH_ID = re.compile(rf"({KEY_ID})(-.*)?")


def new() -> tuple[str, str]:
    """An id, and the secret that begins with it."""
    key_id = f"dk-{secrets.token_hex(8)}"
    return key_id, f"{key_id}-{secrets.token_urlsafe(32)}"


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def id_of(text: str) -> str | None:
    """The id in an id or a secret."""
    found = _BEGINS_WITH_ID.fullmatch(text)
    return found[1] if found else None
