"""The Kubernetes API, as far as preflight reads it: it changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import urllib3.exceptions
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

Object = dict[str, Any]

_CALL_S = 5.0  # limit of one call
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PAGE = 500  # objects in one answer


class NoCluster(Exception):
    """There is nothing that says where a cluster is, or how to log in; the message names what was tried."""


class Unreadable(Exception):
    """What should be read cannot be: no right to, or no answer; the message says which."""


class NoAnswer(Unreadable):
    """Nor would it answer anything else."""


class Cluster:
    """
    Attributes:
        namespace: of the kubeconfig's context, or of this pod.
        address: of the API server.
    """

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self.namespace = namespace
        self.address: str = client.configuration.host
        self._client = client

    @classmethod
    def connect(cls, context: str | None) -> Self:
        """By a kubeconfig or, in a pod without one, by its service account.

        Args:
            context: of the kubeconfig; None: the current one.

        Raises:
            NoCluster
        """
        configuration = Configuration()
        configuration.retries = False  # a cluster that is away should be said to be, at once
        try:
            namespace = _load(configuration, context)
        except NoCluster:
            raise
        except Exception as error:  # the library raises whatever a file leads it to
            raise NoCluster(f"the kubeconfig is of no use: {error}") from error
        return cls(ApiClient(configuration), namespace)

    def read(self, path: str) -> Object | None:
        """What is at a path of the API; None: nothing.

        Raises:
            Unreadable
        """
        return self._ask("GET", path)

    def all(self, path: str) -> list[Object]:
        """The items of a list, page by page; of a kind that the cluster has not, none.

        Raises:
            Unreadable
        """
        items: list[Object] = []
        after = ""
        while True:
            page = self._ask("GET", path, query=[("limit", _PAGE), ("continue", after)])
            if page is None:
                return items
            items += page["items"]
            after = page["metadata"].get("continue", "")
            if not after:
                return items

    def may(self, verb: str, group: str, resource: str, namespace: str | None) -> bool:
        """Whether whoever asks may do this.

        Raises:
            Unreadable
        """
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace or ""}
        answer = self._ask(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            body={
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            },
        )
        return bool(answer and answer["status"]["allowed"])

    def _ask(
        self, method: str, path: str, *, query: Iterable[tuple[str, Any]] = (), body: Object | None = None
    ) -> Object | None:
        prepared = self._client.param_serialize(
            method,
            path,
            query_params=[(name, value) for name, value in query if value],
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self._client.call_api(*prepared, _request_timeout=_CALL_S)
            text = response.read()
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise NoAnswer(f"{self.address} does not answer: {_reason(error)}") from error
        if response.status == 404:
            return None
        if response.status == 401:
            raise NoAnswer(f"{self.address} does not accept the login")
        content = _parse(text)
        if response.status == 403:
            what = path.partition("?")[0].rpartition("/v1/")[2] or path
            raise Unreadable(f"no right to read {what}")
        if response.status >= 400 or content is None:
            message = (content or {}).get("message", "")
            raise Unreadable(f"{response.status} {message}".strip())
        return content


def _load(configuration: Configuration, context: str | None) -> str:
    """Returns the namespace."""
    # The library would read the variable only once, when it is imported.
    paths = os.environ.get("KUBECONFIG") or "~/.kube/config"
    if context is None and not any(Path(path).expanduser().exists() for path in paths.split(os.pathsep)):
        try:
            config.load_incluster_config(client_configuration=configuration)
            return (_SERVICE_ACCOUNT / "namespace").read_text().strip()
        except (config.ConfigException, OSError) as error:
            raise NoCluster(
                f"no kubeconfig at {paths}, and no service account of a cluster ({error})"
            ) from error
    contexts, current = config.list_kube_config_contexts(paths)
    config.load_kube_config(paths, context=context, client_configuration=configuration, persist_config=False)
    chosen = next((entry for entry in contexts if entry["name"] == context), current)
    return str(chosen["context"].get("namespace") or "default")


def _parse(text: bytes) -> Object | None:
    try:
        content = json.loads(text)
    except ValueError:  # a proxy's page
        return None
    return content if isinstance(content, dict) else None


def _reason(error: Exception) -> str:
    # Without the library's own names and addresses of objects.
    return (
        str(getattr(error, "reason", None) or error).split(">: ")[-1].strip("()'\" ") or type(error).__name__
    )
