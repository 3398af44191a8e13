"""The volumes of a pod, as files in a folder of this machine's."""

from __future__ import annotations

import os
from pathlib import Path

from tests.helm.fake_kubelet.environment import ManifestError, Object, Store, field_of
from tests.helm.fake_kubelet.node import PRIVILEGED

TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


class Volumes:
    """
    Args:
        folder: the pod's own, empty.
        claims: where the volumes of claims are; they outlive the pod.
        token: files of the service account.
    """

    def __init__(
        self, pod: Object, store: Store, folder: Path, claims: Path, token: dict[str, bytes]
    ) -> None:
        self._pod = pod
        self._store = store
        self._folder = folder
        self._claims = claims
        self._group: int | None = pod["spec"].get("securityContext", {}).get("fsGroup")
        self._in_memory: dict[str, str] = {}
        self._places: dict[str, tuple[Path, bool]] = {}  # volume -> its folder, and whether it can be written
        for volume in pod["spec"].get("volumes", []):
            self._lay_out(volume)
        self._token = folder / "token"
        self._automount = pod["spec"].get("automountServiceAccountToken", True)
        if self._automount:
            self._write(self._token, token, 0o644)

    def mounts(self, container: Object) -> list[Object]:
        """What `inside.py` mounts for a container."""
        made: list[Object] = [
            {"path": "/dev/shm", "tmpfs": "mode=1777,size=64m"},
            {"path": "/tmp", "tmpfs": ""},
        ]
        if container.get("securityContext", {}).get("readOnlyRootFilesystem", False):
            made.pop()
        else:
            made[-1]["tmpfs"] = "mode=1777,size=1g"  # a layer of the container's own
        for mount in container.get("volumeMounts", []):
            name, path = mount["name"], mount["mountPath"].rstrip("/")
            made = [each for each in made if each["path"] != path]
            if name in self._in_memory:
                made.append({"path": path, "tmpfs": self._in_memory[name]})
                continue
            if name not in self._places:
                raise ManifestError(
                    f"container {container['name']} mounts {name}, which is no volume of the pod"
                )
            place, writable = self._places[name]
            source = place / mount.get("subPath", "")
            if writable and not source.exists():
                source.mkdir(parents=True)
                self._give(source, 0o777)
            if not source.exists():
                raise ManifestError(f"volume {name} has no {mount['subPath']}")
            read_only = mount.get("readOnly", False) or not writable
            made.append({"path": path, "source": str(source), "read_only": read_only})
        if self._automount:
            made.append({"path": TOKEN_FOLDER, "source": str(self._token), "read_only": True})
        return made

    def _lay_out(self, volume: Object) -> None:
        name, place = volume["name"], self._folder / volume["name"]
        if (empty := volume.get("emptyDir")) is not None:
            if empty and empty.get("medium") == "Memory":
                size = str(empty.get("sizeLimit", "1Gi")).replace("Gi", "g").replace("Mi", "m")
                self._in_memory[name] = f"mode=1777,size={size}"
                return
            place.mkdir()
            self._give(place, 0o777)
            self._places[name] = place, True
        elif claim := volume.get("persistentVolumeClaim"):
            place = self._claims / claim["claimName"]
            if not place.exists():
                place.mkdir()
                self._give(place, 0o775 if self._group is not None else 0o755)
            self._places[name] = place, True
        elif (source := self._source(volume)) is not None:
            self._write(place, self._content(source), source.get("defaultMode", 0o644))
            self._places[name] = place, False
        else:
            raise ManifestError(f"volume {name}: the fake kubelet does not know {sorted(volume)}")

    @staticmethod
    def _source(volume: Object) -> Object | None:
        if "configMap" in volume:
            return {"kind": "ConfigMap", **volume["configMap"]}
        if "secret" in volume:
            return {"kind": "Secret", "name": volume["secret"]["secretName"], **volume["secret"]}
        if "projected" in volume or "downwardAPI" in volume:
            kind = "projected" if "projected" in volume else "downwardAPI"
            return {"kind": kind, **volume[kind]}
        return None

    def _content(self, source: Object) -> dict[str, bytes]:
        match source["kind"]:
            case "projected":
                content: dict[str, bytes] = {}
                for each in source["sources"]:
                    for kind, name in (("configMap", "ConfigMap"), ("secret", "Secret")):
                        if kind in each:
                            content |= self._content({"kind": name, **each[kind]})
                return content
            case "downwardAPI":
                fields = ((item["path"], item["fieldRef"]["fieldPath"]) for item in source["items"])
                return {path: field_of(self._pod, field).encode() for path, field in fields}
        data = self._store.data(source["kind"], source["name"], source.get("optional", False))
        if "items" not in source:
            return data
        return {item["path"]: data[item["key"]] for item in source["items"]}

    def _write(self, place: Path, content: dict[str, bytes], mode: int) -> None:
        place.mkdir()
        self._give(place, 0o755)
        for name, data in content.items():
            file = place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            self._give(file, mode if self._group is None else mode | (mode & 0o400) >> 3)

    def _give(self, path: Path, mode: int) -> None:
        """To root, and the pod's group: as Kubernetes does, so that a container's user owns none of it."""
        if PRIVILEGED and self._group is not None:
            os.chown(path, 0, self._group)
            if path.is_dir():
                mode |= 0o2070
        path.chmod(mode)
