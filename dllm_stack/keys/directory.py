"""What is known of keys and tenants at one time, and whether a secret opens anything by it."""

from __future__ import annotations

import hmac
from enum import StrEnum

import msgspec

from dllm_stack.keys import secret as secrets
from dllm_stack.tenants import Key, Tenant

__all__ = ["Directory", "Key", "Refusal", "Revocation"]

FORGET_S = 30 * 86_400  # after which revoked and expired keys are forgotten


_NOBODYS = Key(id="", digest="-" * 64, tenant="", created=0)


class Refusal(StrEnum):
    """Why a secret opens nothing. For metrics: whoever sent it is never told which."""

    UNKNOWN = "unknown"
    REVOKED = "revoked"
    EXPIRED = "expired"


_UNKNOWN, _REVOKED, _EXPIRED = Refusal  # an enum's attributes take a while


class Revocation(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Never taken back. `ends` may lie ahead: a key that was rotated lives on for a while."""

    at: int  # Unix seconds; when it was ordered
    ends: int  # Unix seconds; until when the key opens; up to `at`: not any more, whatever the clocks say

    def holds(self, now: float) -> bool:
        return self.ends <= self.at or now >= self.ends


class Directory(msgspec.Struct, frozen=True):
    """Keys by id, tenants by name. A key opens as long as its tenant is there."""

    keys: dict[str, Key] = {}
    revoked: dict[str, Revocation] = {}
    tenants: dict[str, Tenant] = {}
    departed: dict[str, int] = {}  # tenants that were deleted, and when last: their keys from before end too

    def find(self, secret: str, now: float) -> Key | Refusal:
        """The key of a secret. Takes the same steps, and so the same time, for every secret that is refused.

        Args:
            now: Unix seconds.
        """
        # An id is no secret. What follows it is compared by its hash, in constant time, always.
        key = self.keys.get(secret[: secrets.ID_CHARACTERS], _NOBODYS)
        matches = hmac.compare_digest(secrets.digest(secret), key.digest)
        refusal = self.state(key, now)
        return (refusal or key) if matches else _UNKNOWN

    def state(self, key: Key, now: float) -> Refusal | None:
        """Why a key opens nothing; None: it does."""
        revocation = self.revoked.get(key.id)
        if revocation is not None and revocation.holds(now):
            return _REVOKED
        if key.expires is not None and now >= key.expires:
            return _EXPIRED
        if key.created < self.departed.get(key.tenant, 0) or key.tenant not in self.tenants:
            return _REVOKED
        return None

    def end(self, key: Key) -> int | None:
        """Until when a key opens at most, in Unix seconds; None: for ever."""
        revocation = self.revoked.get(key.id)
        ends = [key.expires, None if revocation is None else revocation.ends]
        return min((end for end in ends if end is not None), default=None)

    def open_keys(self, now: float) -> int:
        return sum(self.state(key, now) is None for key in self.keys.values())

    def forgotten(self, now: float) -> set[str]:
        """The ids of keys that ended so long ago that nobody asks for them any more."""
        ids = {key_id for key_id, revocation in self.revoked.items() if _long_ago(_end(revocation), now)}
        return ids | {key.id for key in self.keys.values() if key.expires and _long_ago(key.expires, now)}

    def after_loss(self, found: Directory, now: float) -> Directory:
        """This, and what a store holds now that may have lost a part of it.

        Revocations only ever add up, so a store that has gone back in time brings back no key. What it does
        not know any more stays; where both know something, the store is right.
        """
        merged = self.and_news(found)
        gone = merged.forgotten(now)
        return Directory(
            {key_id: key for key_id, key in merged.keys.items() if key_id not in gone},
            {key_id: revocation for key_id, revocation in merged.revoked.items() if key_id not in gone},
            merged.tenants,
            {name: at for name, at in merged.departed.items() if not _long_ago(at, now)},
        )

    def and_news(self, news: Directory) -> Directory:
        """This, and what a store says has changed. Costs as much as the news are long, and four copies of
        dictionaries."""
        revoked = self.revoked | news.revoked
        for key_id in self.revoked.keys() & news.revoked.keys():
            revoked[key_id] = earlier(self.revoked[key_id], news.revoked[key_id])
        departed = self.departed | news.departed
        for name in self.departed.keys() & news.departed.keys():
            departed[name] = max(self.departed[name], news.departed[name])
        return Directory(self.keys | news.keys, revoked, self.tenants | news.tenants, departed)


def earlier(one: Revocation, other: Revocation) -> Revocation:
    """The one by which a key ends first."""
    return min(one, other, key=lambda each: each.ends if each.ends > each.at else 0)


def _end(revocation: Revocation) -> int:
    return max(revocation.at, revocation.ends)


def _long_ago(at: int, now: float) -> bool:
    return now - at > FORGET_S
