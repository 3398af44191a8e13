"""Where Redis is, read from one URL.

One server: `redis://[user:password@]host[:port][/db]`, or `unix://[user:password@]/path[?db=0]`.
Behind Sentinels: `redis+sentinel://[user:password@]host[:port],.../service[/db]`; the options
`sentinel_username` and `sentinel_password` are for the Sentinels themselves.
A cluster: `redis+cluster://[user:password@]host[:port],...`, with some of its nodes.
`rediss` in the place of `redis` takes TLS, to the Sentinels too. Further options are redis-py's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection, parse_url

_PORTS = {"sentinel": 26379, "cluster": 6379}
_NOT_OF_A_CONNECTION = {"connection_class", "sentinel_username", "sentinel_password"}


@dataclass(frozen=True)
class Server:
    options: dict[str, Any]  # of redis-py


@dataclass(frozen=True)
class Sentinels:
    hosts: list[tuple[str, int]]
    service: str
    options: dict[str, Any]
    own_options: dict[str, Any]  # for the Sentinels


@dataclass(frozen=True)
class Cluster:
    hosts: list[tuple[str, int]]
    options: dict[str, Any]


def parse(url: str) -> Server | Sentinels | Cluster:
    """Raises ValueError when the URL is none of those above."""
    scheme, _, rest = url.partition("://")
    tls, _, kind = scheme.partition("+")
    if tls not in ("redis", "rediss", "unix") or kind not in ("", *_PORTS) or (kind and tls == "unix"):
        raise ValueError("not a redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// URL")
    if not kind:
        return Server(_options(url))
    address, question, query = rest.partition("?")
    authority, _, path = address.partition("/")
    login, at, hosts = authority.rpartition("@")
    nodes = [_host(host, _PORTS[kind]) for host in hosts.split(",")]
    if kind == "cluster":
        if path not in ("", "0"):
            raise ValueError("a cluster has no database but 0")
        options = _options(f"{tls}://{login}{at}host{question}{query}")
        return Cluster(nodes, _without_host(options))
    service, _, database = path.partition("/")
    if not service:
        raise ValueError("the name of the service is missing: redis+sentinel://host:port,host:port/service")
    options = _without_host(_options(f"{tls}://{login}{at}host/{database}{question}{query}"))
    own = {
        name: options.pop(f"sentinel_{name}")
        for name in ("username", "password")
        if f"sentinel_{name}" in options
    }
    own |= {name: value for name, value in options.items() if name.startswith("ssl")}
    return Sentinels(nodes, service, options, own)


def shown(url: str) -> str:
    """A Redis URL without user, password and options, for messages."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("?")[0].partition("/")
    return scheme + separator + authority.rpartition("@")[2] + slash + path


def _host(host: str, port: int) -> tuple[str, int]:
    name, colon, number = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, number = host, str(port)
    name = name.removeprefix("[").removesuffix("]")
    if not name or not number.isdecimal() or not 0 < int(number) < 65536:
        raise ValueError(f"{host!r} is not a host or host:port")
    return name, int(number)


def _options(url: str) -> dict[str, Any]:
    database = url.partition("://")[2].partition("?")[0].partition("/")[2]
    if not url.startswith("unix") and not (database.isdecimal() or not database):
        raise ValueError(f"{database!r} is not the number of a database")
    options: dict[str, Any] = dict(parse_url(url))
    connection = options.get("connection_class", Connection)
    own = {name: value for name, value in options.items() if name not in _NOT_OF_A_CONNECTION}
    try:
        connection(**own)
    except TypeError as error:
        raise ValueError(f"an option is unknown: {error}") from None
    return options


def _without_host(options: dict[str, Any]) -> dict[str, Any]:
    del options["host"]
    if options.pop("connection_class", Connection) is SSLConnection:
        options["ssl"] = True
    return options
