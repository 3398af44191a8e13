"""Whether an object is what its kind's published schema says."""

from __future__ import annotations

import copy
import functools
from typing import Literal

from jsonschema import Draft202012Validator, ValidationError

from tests.helm.fake_kube_api import refusals
from tests.helm.fake_kube_api.kinds import Kind, Object
from tests.helm.fake_kube_api.schema import schemas

Strictness = Literal["Strict", "Warn", "Ignore"]  # of fieldValidation, about unknown fields


@functools.cache
def _validator(version: str, kind: Kind) -> Draft202012Validator | None:
    return schemas(version).validator(kind)


def checked(kind: Kind, content: Object, version: str, strictness: Strictness) -> tuple[Object, list[str]]:
    """The object without its unknown fields, and a warning about each.

    Raises:
        Refusal: there are some and the client is strict, or a value is none that its field can have.
    """
    validator = _validator(version, kind)
    if validator is None:
        return content, []
    # Nobody writes a status but the fake.
    errors = list(validator.iter_errors({key: value for key, value in content.items() if key != "status"}))
    unknown = sorted((*error.absolute_path, field) for error in errors for field in _unknown(error))
    wrong = [(_dotted(error.absolute_path), error.message) for error in errors if not _unknown(error)]
    if unknown and strictness == "Strict":
        raise refusals.unknown_fields(kind, [_dotted(path) for path in unknown])
    if wrong:
        raise refusals.invalid(kind, content["metadata"].get("name", ""), wrong)
    content = copy.deepcopy(content)
    for *path, field in unknown:
        place = content
        for step in path:
            place = place[step]
        del place[field]
    warnings = [f'unknown field "{_dotted(path)}"' for path in unknown] if strictness == "Warn" else []
    return content, warnings


def _unknown(error: ValidationError) -> list[str]:
    if error.validator != "additionalProperties" or error.validator_value is not False:
        return []
    return [field for field in error.instance if field not in error.schema.get("properties", {})]


def _dotted(path: object) -> str:
    text = ""
    for step in path:  # type: ignore[attr-defined]
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")
