"""What the API answers when it does not do what it is asked, in its own words."""

from __future__ import annotations

from typing import Any

from tests.helm.fake_kube_api.kinds import Kind, Object


class Refusal(Exception):
    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
            "details": details,
        }


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def unauthorized() -> Refusal:
    return Refusal(401, "Unauthorized", "Unauthorized")


def forbidden(verb: str, kind: Kind, namespace: str | None) -> Refusal:
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    message = (
        f'{kind.resource} is forbidden: User "fake" cannot {verb} resource "{kind.plural}" in API group '
        f'"{kind.group}" {where}'
    )
    return Refusal(403, "Forbidden", message, kind=kind.plural, group=kind.group)


def no_path(path: str) -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", path=path)


def not_found(kind: Kind, name: str) -> Refusal:
    message = f'{kind.resource} "{name}" not found'
    return Refusal(404, "NotFound", message, name=name, kind=kind.plural, group=kind.group)


def exists(kind: Kind, name: str) -> Refusal:
    message = f'{kind.resource} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, name=name, kind=kind.plural, group=kind.group)


def outdated(kind: Kind, name: str) -> Refusal:
    message = (
        f'Operation cannot be fulfilled on {kind.resource} "{name}": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )
    return Refusal(409, "Conflict", message, name=name, kind=kind.plural, group=kind.group)


def conflicts(owned: list[tuple[str, str]]) -> Refusal:
    """`owned`: fields, each with the manager that has it."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{manager}"', "field": field}
        for field, manager in owned
    ]
    listed = "\n".join(f'conflict with "{manager}": {field}' for field, manager in owned)
    message = f"Apply failed with {len(owned)} conflicts: {listed}"
    return Refusal(409, "Conflict", message, causes=causes)


def unknown_fields(kind: Kind, fields: list[str]) -> Refusal:
    listed = ", ".join(f'unknown field "{field}"' for field in fields)
    return bad_request(
        f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: strict decoding error: '
        f"{listed}"
    )


def invalid(kind: Kind, name: str, causes: list[tuple[str, str]]) -> Refusal:
    """`causes`: fields, each with what is wrong with it."""
    listed = ", ".join(f"{field}: {message}" for field, message in causes)
    message = f'{kind.name}.{kind.group} "{name}" is invalid: {listed}'
    details = [{"field": field, "message": message} for field, message in causes]
    return Refusal(422, "Invalid", message, name=name, kind=kind.name, causes=details)


def unsupported(content_type: str) -> Refusal:
    return Refusal(415, "UnsupportedMediaType", f"the fake does not read {content_type}")
