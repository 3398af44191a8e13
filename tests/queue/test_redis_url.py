"""Which Redis a URL means."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from dllm_stack.redis_url import Cluster, Sentinels, Server, parse, shown
from dllm_stack.settings import RedisSettings

TLS = {"ssl": True, "ssl_ca_certs": "/ca"}


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("redis://here:7000/2", {"host": "here", "port": 7000, "db": 2}),
        ("redis://", {}),
        ("unix://me:secret@/run/redis?db=1", {"path": "/run/redis", "db": 1, "username": "me"}),
    ],
)
def test_one_server(url: str, options: dict[str, object]) -> None:
    found = parse(url)
    assert isinstance(found, Server)
    assert found.options.items() >= options.items()


@pytest.mark.parametrize(
    ("url", "meaning"),
    [
        (
            "redis+sentinel://a:1,b,[::1]:2/queue",
            Sentinels([("a", 1), ("b", 26379), ("::1", 2)], "queue", {}, {}),
        ),
        (
            "rediss+sentinel://me:p%40ss@a/queue/3?sentinel_password=own&ssl_ca_certs=/ca",
            Sentinels(
                [("a", 26379)],
                "queue",
                {"username": "me", "password": "p@ss", "db": 3} | TLS,
                {"password": "own"} | TLS,
            ),
        ),
        ("redis+cluster://a,b:7000", Cluster([("a", 6379), ("b", 7000)], {})),
        ("rediss+cluster://:pass@a?ssl_ca_certs=/ca", Cluster([("a", 6379)], {"password": "pass"} | TLS)),
    ],
)
def test_several_servers(url: str, meaning: Sentinels | Cluster) -> None:
    assert parse(url) == meaning


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://here", "not a redis://"),
        ("redis+ring://here", "not a redis://"),
        ("here:6379", "not a redis://"),
        ("redis://here/first", "'first' is not the number of a database"),
        ("redis+sentinel://a:1,b:2", "the name of the service is missing"),
        ("redis+sentinel://a:1/queue/first", "'first' is not the number of a database"),
        ("redis+sentinel:///queue", "'' is not a host or host:port"),
        ("redis+cluster://a:port", "'a:port' is not a host or host:port"),
        ("redis+cluster://a,:7000", "':7000' is not a host or host:port"),
        ("redis+cluster://a:70000", "'a:70000' is not a host or host:port"),
        ("redis+cluster://a?colour=red", "an option is unknown: .*'colour'"),
        ("redis+cluster://a/1", "a cluster has no database but 0"),
    ],
)
def test_a_url_that_means_nothing_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(ValidationError, match=f"url\n.*{complaint}"):
        RedisSettings(url=url)


def test_secrets_are_not_shown() -> None:
    assert shown("redis://me:secret@here:1/2?x=secret") == "redis://here:1/2"
    assert shown("redis+sentinel://:secret@a:1,b/queue?sentinel_password=secret") == (
        "redis+sentinel://a:1,b/queue"
    )
