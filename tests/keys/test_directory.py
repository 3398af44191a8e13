"""What a secret opens, and what becomes of that when a store loses things."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dllm_stack.keys import Directory, Refusal, Revocation
from dllm_stack.keys import secret as secrets
from dllm_stack.keys.directory import FORGET_S
from dllm_stack.keys.records import new_key
from dllm_stack.tenants import Key, Tenant

NOW = 1_800_000_000.0
ACME = {"acme": Tenant(name="acme")}


def one_key() -> tuple[str, Key]:
    created = new_key("acme")
    return created.secret, replace(created.key, created=int(NOW) - 100)


def holding(key: Key, revocation: Revocation | None = None) -> Directory:
    return Directory({key.id: key}, {} if revocation is None else {key.id: revocation}, ACME)


def test_a_secret_opens_what_its_key_does() -> None:
    secret, key = one_key()
    assert holding(key).find(secret, NOW) == key
    assert key.digest not in secret
    assert secret not in str(key)
    assert secrets.id_of(secret) == key.id


def test_what_is_no_secret_opens_nothing() -> None:
    secret, key = one_key()
    directory = holding(key)
    other = "A" if secret[-1] != "A" else "B"
    for wrong in (
        "",
        key.id,
        key.digest,
        secret[:-1],
        secret[:-1] + other,
        secret + "A",
        secret.upper(),
        "ü",
    ):
        assert directory.find(wrong, NOW) is Refusal.UNKNOWN, wrong
    assert Directory().find(secret, NOW) is Refusal.UNKNOWN
    assert Directory().find("-" * 64, NOW) is Refusal.UNKNOWN


def test_how_a_key_ends() -> None:
    secret, key = one_key()
    assert holding(replace(key, expires=int(NOW))).find(secret, NOW) is Refusal.EXPIRED
    assert holding(replace(key, expires=int(NOW) + 1)).find(secret, NOW) is not Refusal.EXPIRED
    at_once = Revocation(at=int(NOW) + 3600, ends=0)  # by a clock that is ahead
    assert holding(key, at_once).find(secret, NOW) is Refusal.REVOKED
    later = Revocation(at=int(NOW) - 5, ends=int(NOW) + 5)
    assert holding(key, later).find(secret, NOW) == key
    assert holding(key, later).find(secret, NOW + 5) is Refusal.REVOKED
    assert Directory({key.id: key}).find(secret, NOW) is Refusal.REVOKED, "its tenant is gone"
    departed = Directory({key.id: key}, {}, ACME, {"acme": int(NOW) - 50})
    assert departed.find(secret, NOW) is Refusal.REVOKED, "the tenant of that name is another one"


def test_a_store_that_is_empty_takes_nothing_away() -> None:
    secret, key = one_key()
    assert holding(key).after_loss(Directory(), NOW).find(secret, NOW) == key


def test_a_store_that_has_gone_back_brings_nothing_back() -> None:
    secret, key = one_key()
    known = holding(key, Revocation(at=int(NOW), ends=0))
    for found in (holding(key), holding(key, Revocation(at=int(NOW) - 9, ends=int(NOW) + 99))):
        assert known.after_loss(found, NOW).find(secret, NOW) is Refusal.REVOKED
    left = Directory({key.id: key}, {}, {}, {"acme": int(NOW) - 50})
    assert left.after_loss(holding(key), NOW).find(secret, NOW) is Refusal.REVOKED


def test_where_both_know_something_the_store_is_right() -> None:
    _, key = one_key()
    known = Directory({key.id: key}, {}, {"acme": Tenant(name="acme", weight=1)})
    found = Directory({key.id: key}, {}, {"acme": Tenant(name="acme", weight=2)})
    assert known.after_loss(found, NOW).tenants["acme"].weight == 2


def test_what_ended_long_ago_is_forgotten() -> None:
    _, key = one_key()
    long_ago = int(NOW) - FORGET_S - 1
    for directory in (
        holding(key, Revocation(at=long_ago, ends=0)),
        holding(replace(key, expires=long_ago)),
    ):
        assert directory.forgotten(NOW) == {key.id}
        left = directory.after_loss(directory, NOW)
        assert (left.keys, left.revoked) == ({}, {})
    assert holding(key, Revocation(at=long_ago + 2, ends=0)).forgotten(NOW) == set()


_IDS = st.sampled_from([f"dk-{number:016x}" for number in range(4)])
_TIMES = st.integers(int(NOW) - 50, int(NOW) + 50)
_REVOCATIONS = st.builds(Revocation, at=_TIMES, ends=st.just(0) | _TIMES)
_DIRECTORIES = st.builds(
    lambda ids, revoked, departed: Directory(
        {key_id: Key(id=key_id, digest="0" * 64, tenant="acme", created=int(NOW)) for key_id in ids},
        revoked,
        ACME,
        departed,
    ),
    st.sets(_IDS),
    st.dictionaries(_IDS, _REVOCATIONS),
    st.dictionaries(st.just("acme"), _TIMES),
)


@given(_DIRECTORIES, _DIRECTORIES, _TIMES)
def test_no_loss_opens_what_either_has_closed(known: Directory, found: Directory, now: int) -> None:
    after = known.after_loss(found, NOW)
    for key in after.keys.values():
        if after.state(key, now) is None:
            for each in (known, found):
                assert key.id not in each.keys or each.state(key, now) is None
                assert key.id not in each.revoked or not each.revoked[key.id].holds(now)
    assert after.after_loss(found, NOW) == after, "reading it twice makes no difference"


def times_of(cases: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each, in seconds, all taken in turns."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            began = time.perf_counter()
            case()
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in taken.items()}


def test_a_refusal_takes_the_same_time_whatever_its_reason(record: Callable[[str], None]) -> None:
    known = [new_key("acme") for _ in range(1000)]
    revoked, near = known[0], known[1]
    directory = Directory(
        {each.key.id: each.key for each in known}, {revoked.key.id: Revocation(at=int(NOW), ends=0)}, ACME
    )
    unknown = new_key("acme").secret
    tries = {
        "unknown": unknown,
        "unknown, with the id of a key": near.key.id + unknown[19:],
        "wrong in its last character": near.secret[:-1] + ("A" if near.secret[-1] != "A" else "B"),
        "revoked": revoked.secret,
    }
    assert {str(directory.find(secret, NOW)) for secret in tries.values()} == {"unknown", "revoked"}

    def hundred(secret: str) -> Callable[[], object]:
        return lambda: [directory.find(secret, NOW) for _ in range(100)]

    cases = {name: hundred(secret) for name, secret in tries.items()}
    for _ in range(30):  # something else may run for a while
        times = times_of(cases, 100)
        spread = max(times.values()) / min(times.values()) - 1
        if spread < 0.15:
            break
    record("refusing a key: " + ", ".join(f"{name} {at * 1e7:.0f} ns" for name, at in times.items()))
    assert spread < 0.15, times


@pytest.mark.parametrize(
    "text", ["dk-0123456789abcdef\n", "dk-0123456789abcdeg", "0123456789abcdef", "dk-0-x", ""]
)
def test_what_is_no_id(text: str) -> None:
    assert secrets.id_of(text) is None
