"""The Kubernetes API, as far as the router uses it: the workers' pods, and their deletion cost."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Self

import aiohttp
import msgspec
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration, CoreV1Api

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_CALL_S = 5.0  # limit of one call
_WATCH_S = 60  # of one watch, which the server ends; a dead connection is noticed that late
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_GONE = 410
# Of the connection; of a line that does not end; of an answer that cannot be read; of a token file.
_TROUBLE = (aiohttp.ClientError, OSError, ValueError, msgspec.DecodeError, config.ConfigException)


class NoCluster(Exception):
    """There is nothing that says where a cluster is, or how to log in; the message names what was tried."""


class ClusterError(Exception):
    """The API did not do what it was asked."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status  # HTTP; None when there was no answer, or none that could be read


class Expired(ClusterError):
    """The version to watch from is too old: list the pods again."""


class Metadata(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    name: str
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    resource_version: str = ""


class Pod(msgspec.Struct, frozen=True):
    """Of a pod only what the router looks at, out of several kilobytes."""

    metadata: Metadata

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def leaving(self) -> bool:
        """It is marked for deletion: it gets its SIGTERM as soon as its preStop hook is through."""
        return self.metadata.deletion_timestamp is not None

    @property
    def deletion_cost(self) -> str:
        return (self.metadata.annotations or {}).get(DELETION_COST, "0")


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str


class Pods(msgspec.Struct, frozen=True):
    """A list of pods, and the version from which a watch goes on."""

    metadata: _Version
    items: list[Pod]


class _Bookmark(msgspec.Struct, frozen=True):
    metadata: _Version


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class Change(msgspec.Struct, frozen=True):
    """`version` is where to go on from. `pod` is None when nothing happened to any."""

    version: str
    kind: Literal["changed", "deleted", "nothing"]
    pod: Pod | None = None


_decode_pods = msgspec.json.Decoder(Pods).decode
_decode_pod = msgspec.json.Decoder(Pod).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode
_decode_status = msgspec.json.Decoder(_Status).decode


class Cluster:
    """The pods of one namespace that a label selector names. Every method raises `ClusterError`, in time."""

    def __init__(self, client: ApiClient, namespace: str, selector: str) -> None:
        self._client = client
        self._api = CoreV1Api(client)
        self._namespace = namespace
        self._selector = selector

    @classmethod
    async def connect(cls, selector: str, namespace: str | None) -> Self:
        """Prepares to log in as this pod's service account or, outside of a cluster, by a kubeconfig.

        Raises:
            NoCluster
        """
        configuration = Configuration()
        try:
            config.load_incluster_config(client_configuration=configuration)
            own = (_SERVICE_ACCOUNT / "namespace").read_text().strip()
        except (config.ConfigException, OSError) as error:
            own = await _load_kubeconfig(configuration, error)
        return cls(ApiClient(configuration), namespace or own, selector)

    async def aclose(self) -> None:
        await self._client.close()

    async def pods(self) -> Pods:
        async with self._answer("list_namespaced_pod", label_selector=self._selector) as response:
            return _decode_pods(await response.read())

    async def pod(self, name: str) -> Pod | None:
        try:
            async with self._answer("read_namespaced_pod", name=name) as response:
                return _decode_pod(await response.read())
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    async def changes(self, version: str) -> AsyncGenerator[Change, None]:
        """What happens to the pods from this version on, until the server closes the watch. The first is
        "nothing": the watch is open.

        Raises:
            Expired
        """
        async with self._answer(
            "list_namespaced_pod",
            limit_s=_WATCH_S + _CALL_S,
            label_selector=self._selector,
            watch=True,
            allow_watch_bookmarks=True,
            resource_version=version,
            timeout_seconds=_WATCH_S,
        ) as response:
            yield Change(version, "nothing")
            while line := await response.content.readline():
                yield _change(line)

    async def set_deletion_cost(self, name: str, cost: str) -> None:
        """A pod that is gone is no error."""
        body = {"metadata": {"annotations": {DELETION_COST: cost}}}
        try:
            async with self._answer(
                "patch_namespaced_pod", name=name, body=body, _content_type="application/merge-patch+json"
            ) as response:
                await response.read()
        except ClusterError as error:
            if error.status != 404:
                raise

    @asynccontextmanager
    async def _answer(
        self, call: str, *, limit_s: float | None = None, **arguments: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The good answer to a call, unread."""
        # The client's own models of a pod are many and slow to fill, in the loop that dispatches.
        limit_s = limit_s or _CALL_S
        send = getattr(self._api, f"{call}_without_preload_content")
        try:
            async with await send(
                namespace=self._namespace, _request_timeout=limit_s, **arguments
            ) as response:
                if response.status >= 400:
                    raise _refusal(response.status, await response.read())
                yield response
        except TimeoutError:
            raise ClusterError(f"no answer within {limit_s:g} s") from None
        except _TROUBLE as error:
            raise ClusterError(repr(error)) from error


def _change(line: bytes) -> Change:
    event = _decode_event(line)
    match event.type:
        case "ADDED" | "MODIFIED" | "DELETED":
            pod = _decode_pod(event.object)
            kind: Literal["changed", "deleted"] = "deleted" if event.type == "DELETED" else "changed"
            return Change(pod.metadata.resource_version, kind, pod)
        case "BOOKMARK":
            return Change(_decode_bookmark(event.object).metadata.resource_version, "nothing")
        case _:
            status = _decode_status(event.object)
            raise _refusal(status.code, event.object)


def _refusal(status: int, body: bytes | msgspec.Raw) -> ClusterError:
    try:
        message = _decode_status(body).message
    except msgspec.DecodeError:  # from a proxy
        message = ""
    kind = Expired if status == _GONE else ClusterError
    return kind(f"{status} {message}".strip(), status)


async def _load_kubeconfig(configuration: Configuration, no_service_account: Exception) -> str:
    """Returns the namespace of its current context."""
    paths = os.environ.get("KUBECONFIG") or "~/.kube/config"
    try:
        _assert_one_exists(paths)
        loader = await config.load_kube_config(
            paths, client_configuration=configuration, persist_config=False
        )
        context: dict[str, Any] = loader.current_context["context"]
    except Exception as error:  # the library raises whatever a file leads it to
        raise NoCluster(
            f"no service account of a cluster ({no_service_account}), and no kubeconfig at {paths} ({error})"
        ) from error
    return context.get("namespace") or "default"


def _assert_one_exists(paths: str) -> None:
    if not any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path):
        raise FileNotFoundError("no such file")
