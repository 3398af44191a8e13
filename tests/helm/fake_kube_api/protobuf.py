"""Namespaces, Secrets and ConfigMaps as helm and kubectl create them: they write them as protobuf,
whatever the server would rather read."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from tests.helm.fake_kube_api import refusals
from tests.helm.fake_kube_api.kinds import Object

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"

# Of Kubernetes' generated.proto files, with their numbers, what the two fill. Others' fields are skipped.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "TypeMeta": {"apiVersion": (1, "string"), "kind": (2, "string")},
    "Unknown": {"typeMeta": (1, "TypeMeta"), "raw": (2, "bytes")},
    "ObjectMeta": {
        "name": (1, "string"),
        "generateName": (2, "string"),
        "namespace": (3, "string"),
        "uid": (5, "string"),
        "resourceVersion": (6, "string"),
        "labels": (11, "map string"),
        "annotations": (12, "map string"),
    },
    "Namespace": {"metadata": (1, "ObjectMeta")},
    "Secret": {
        "metadata": (1, "ObjectMeta"),
        "data": (2, "map bytes"),
        "type": (3, "string"),
        "stringData": (4, "map string"),
        "immutable": (5, "bool"),
    },
    "ConfigMap": {
        "metadata": (1, "ObjectMeta"),
        "data": (2, "map string"),
        "binaryData": (3, "map bytes"),
        "immutable": (4, "bool"),
    },
}


def read(body: bytes) -> Object:
    """
    Raises:
        Refusal: it is of another kind.
    """
    unknown = _classes["Unknown"]()
    unknown.ParseFromString(body.removeprefix(_MAGIC))
    kind = unknown.typeMeta.kind
    if kind not in ("Namespace", "Secret", "ConfigMap"):
        raise refusals.unsupported(f"{kind} as protobuf")
    message = _classes[kind]()
    message.ParseFromString(unknown.raw)
    content: Object = json_format.MessageToDict(message)  # bytes become base64, as in the API's JSON
    return {"apiVersion": unknown.typeMeta.apiVersion, "kind": kind, **content}


def is_protobuf(body: bytes) -> bool:
    return body.startswith(_MAGIC)


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="fake.proto", package="fake", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"fake.{name}"))
        for name in _MESSAGES
    }


def _add(message: Any, name: str, number: int, kind: str) -> None:
    types = descriptor_pb2.FieldDescriptorProto
    scalars = {"string": types.TYPE_STRING, "bytes": types.TYPE_BYTES, "bool": types.TYPE_BOOL}
    field = message.field.add(name=name, json_name=name, number=number, label=types.LABEL_OPTIONAL)
    if kind.startswith("map "):
        entry = message.nested_type.add(name=name[0].upper() + name[1:] + "Entry")
        entry.options.map_entry = True
        _add(entry, "key", 1, "string")
        _add(entry, "value", 2, kind.removeprefix("map "))
        field.label, field.type = types.LABEL_REPEATED, types.TYPE_MESSAGE
        field.type_name = f".fake.{message.name}.{entry.name}"
    elif kind in scalars:
        field.type = scalars[kind]
    else:
        field.type, field.type_name = types.TYPE_MESSAGE, f".fake.{kind}"


_classes = _build()
