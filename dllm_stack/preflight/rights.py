"""Check of the permissions: may whoever asks install this?"""

from __future__ import annotations

from dllm_stack.preflight.cluster import Cluster, Unreadable
from dllm_stack.preflight.finding import Finding
from dllm_stack.preflight.needs import Needs

# Helm creates objects, reads and changes them in an upgrade, and deletes them.
_VERBS = ("create", "get", "patch", "delete")
# And keeps its releases in Secrets.
_OF_RELEASES = ("create", "get", "list", "update", "delete")
_SHOWN = 4


def check(cluster: Cluster, needs: Needs, namespace: str, *, is_there: bool) -> Finding:
    try:
        if cluster.may("*", "*", "*", namespace) and (
            is_there or cluster.may("create", "", "namespaces", None)
        ):
            return Finding("permissions", "ok", f"all in {namespace}")
        lacking = [
            f"{verb} {resource}{'.' + group if group else ''}"
            for verb, group, resource in asked(needs)
            if not cluster.may(verb, group, resource, namespace)
        ]
        if not is_there and not cluster.may("create", "", "namespaces", None):
            lacking.append("create namespaces")
    except Unreadable as error:
        return Finding("permissions", "unknown", str(error))
    if lacking:
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        found = f"not allowed in {namespace}: {', '.join(lacking[:_SHOWN])}{more}"
        return Finding("permissions", "missing", found, "ask for a Role that allows it")
    return Finding("permissions", "ok", f"to install, upgrade and uninstall in {namespace}")


def asked(needs: Needs) -> list[tuple[str, str, str]]:
    """Verb, group and resource; those of a Role too, as nobody may grant what he has not."""
    rights = [(verb, "", "secrets") for verb in _OF_RELEASES]
    for kind in sorted(needs.kinds, key=lambda kind: (kind.group, kind.name)):
        rights += [(verb, kind.group, kind.plural) for verb in _VERBS]
    for (group, resource), verbs in needs.grants.items():
        rights += [(verb, group, resource) for verb in sorted(verbs)]
    return list(dict.fromkeys(rights))
