"""The fake cluster: one namespace on one node."""

from __future__ import annotations

import asyncio
import copy
import random
import shutil
import socket
import ssl
import subprocess
import tempfile
import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import aiohttp

from tests.helm.fake_kubelet import image as images
from tests.helm.fake_kubelet.container import Command
from tests.helm.fake_kubelet.environment import ManifestError, Object, Store, expand, service_links, variables
from tests.helm.fake_kubelet.image import Image
from tests.helm.fake_kubelet.node import SERVICES, Node
from tests.helm.fake_kubelet.pod import Place, Pod
from tests.helm.fake_kubelet.services import Service, connect, serve
from tests.helm.fake_kubelet.volumes import Volumes
from tests.helm.fake_kubelet.workloads import DELETION_COST, KINDS, StatefulSet, Workload, until
from tests.router.fake_kube_api import NAMESPACE, TOKEN, FakeKubeApi

API_ADDRESS, API_PORT = f"{SERVICES}.1", 443
_VERBS = {
    "list": "list",
    "watch": "watch",
    "read": "get",
    "patch": "patch",
}  # of the fake, of RBAC
_CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=kubernetes"
)


class FakeCluster:
    """Use as an async context manager; nothing of it is left afterwards.

    Args:
        image: the Dockerfile's words of an image's name.

    Attributes:
        api: of the pods, to which service accounts may go.
        pods: all there ever were, by name.
    """

    def __init__(self, image: dict[str, Image] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fake-cluster-"))
        self.pods: dict[str, Pod] = {}
        self.services: dict[str, Service] = {}
        self.workloads: dict[tuple[str, str], Workload] = {}
        self.api: FakeKubeApi
        self._images = image or images.images()
        self._store: dict[tuple[str, str], Object] = {}
        self._dice = random.Random(8)
        self._deleting: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for name in ("binaries", "claims", "roots", "logs", "volumes"):
            (self.folder / name).mkdir()
        self._hosts = self.folder / "hosts"
        self._hosts.write_text("127.0.0.1 localhost\n")
        self._root_files = images.root_files(self.folder / "binaries")
        self.node = await self._stack.enter_async_context(Node())
        await self._start_api()
        self._tasks.add(asyncio.create_task(self._control()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (*self._tasks, *self._deleting.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._deleting.values(), return_exceptions=True)
        await asyncio.gather(*(pod.kill() for pod in self.pods.values()))
        for service in self.services.values():
            await service.stop()
        await self._stack.aclose()
        shutil.rmtree(self.folder)

    # What a user does

    async def apply(self, manifests: list[Object]) -> None:
        """Makes these the objects there are, but for Helm's hooks: what is no longer there is deleted."""
        wanted = {(each["kind"], each["metadata"]["name"]): each for each in manifests if not _is_hook(each)}
        gone = self._store.keys() - wanted.keys()
        self._store = wanted
        self._allow()
        for (kind, name), manifest in wanted.items():
            if kind == "Service" and name not in self.services:
                await self._serve(manifest)
        self._name_services()
        for key, manifest in wanted.items():
            if key[0] in KINDS:
                if key in self.workloads:
                    self.workloads[key].update(manifest)
                else:
                    self.workloads[key] = KINDS[key[0]](manifest, self)
        for key in gone & self.workloads.keys():
            for pod in self.workloads.pop(key).pods:
                self.delete(pod)
        self._wake.set()

    async def rolled_out(self, within_s: float, *names: str) -> None:
        """Raises AssertionError with what is wrong."""
        workloads = [each for each in self.workloads.values() if not names or each.name in names]
        if not await until(lambda: all(each.done for each in workloads), within_s):
            raise AssertionError("\n".join(["not rolled out:", *map(self.describe, self.living)]))

    async def run(self, manifest: Object, within_s: float) -> Pod:
        """A pod that ends by itself, such as a test of Helm's."""
        pod = self.create({"metadata": manifest["metadata"]}, manifest, {}, manifest["metadata"]["name"])
        async with asyncio.timeout(within_s):
            await pod.wait()
        return pod

    async def gone(self, within_s: float) -> None:
        """Waits until all pods that were deleted are gone."""
        async with asyncio.timeout(within_s):
            await asyncio.gather(*self._deleting.values())

    async def forward(self, service: str, port: int) -> str:
        """As `kubectl port-forward` does: an URL on this machine."""
        address = self.services[service].address
        listener = socket.create_server(("127.0.0.1", 0))
        server = await serve(listener, lambda: connect(self.node, address, port), self._tasks)
        self._stack.callback(server.close)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def http(self, **options: Any) -> aiohttp.ClientSession:
        """A client in the cluster's network; it goes by addresses, not by names."""
        connector = aiohttp.TCPConnector(socket_factory=lambda _: self.node.new_socket(), limit=0, **options)
        return aiohttp.ClientSession(connector=connector)

    async def admit(self, port: int, address: str = f"{SERVICES}.2") -> str:
        """Lets pods connect to a port of this machine; the URL that they see it at."""
        self.node.own(address)
        await self._bring(address, port, port)
        return f"http://{address}:{port}"

    @property
    def living(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.phase in ("Pending", "Running")]

    def of(self, workload: str) -> list[Pod]:
        """The pods of a workload that are not leaving."""
        return next(list(each.pods) for each in self.workloads.values() if each.name == workload)

    def describe(self, pod: Pod) -> str:
        events = "\n".join(
            f"  {event.at - pod.created_at:7.2f} s {event.container} {event.what}" for event in pod.events
        )
        return f"{pod.name} {pod.phase}, ready {pod.ready}\n{events}\n{pod.log()[-3000:]}"

    # What controllers do

    def create(
        self, workload: Object, template: Object, labels: dict[str, str], name: str | None = None
    ) -> Pod:
        if name is None:
            letters = "".join(self._dice.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
            name = "-".join([workload["metadata"]["name"], *labels.values(), letters])
        manifest = copy.deepcopy({"metadata": template.get("metadata", {}), "spec": template["spec"]})
        metadata = manifest["metadata"]
        metadata |= {"name": name, "namespace": NAMESPACE, "uid": str(uuid.uuid4())}
        metadata["labels"] = metadata.get("labels", {}) | labels
        address = self.node.new_address()
        manifest["status"] = {"podIP": address, "hostIP": "10.77.0.1"}
        manifest["spec"].setdefault("nodeName", "fake-node")
        for claim in workload.get("spec", {}).get("volumeClaimTemplates", []):
            kind = claim["metadata"]["name"]
            volume = {"name": kind, "persistentVolumeClaim": {"claimName": f"{kind}-{name}"}}
            manifest["spec"].setdefault("volumes", []).append(volume)
        store = Store(self._store)
        folder = Path(tempfile.mkdtemp(dir=self.folder / "volumes"))
        volumes = Volumes(manifest, store, folder, self.folder / "claims", self._token_of(manifest))
        pod = Pod(manifest, self.node, lambda each: self._place(each, manifest, store, volumes), self._see)
        self.pods[name if name not in self.pods else f"{name}#{len(self.pods)}"] = pod
        self._spawn(self.api.add(name, **metadata["labels"]))
        if workload.get("kind") == StatefulSet.__name__:
            self._name_services(pod)
        pod.start()
        return pod

    def delete(self, pod: Pod) -> None:
        if pod.name in self._deleting and not self._deleting[pod.name].done():
            return
        pod.leaving = True
        self._deleting[pod.name] = asyncio.create_task(self._delete(pod))

    def cost(self, pod: Pod) -> int:
        return int(self.api.annotations(pod.name).get(DELETION_COST, "0"))

    async def _delete(self, pod: Pod) -> None:
        self._see(pod)
        await self.api.mark_for_deletion(pod.name)
        await pod.delete()
        await self.api.remove(pod.name)
        self._wake.set()

    def _see(self, pod: Pod) -> None:
        for service in self.services.values():
            service.see(pod)
        self._wake.set()

    async def _control(self) -> None:
        while True:
            for workload in tuple(self.workloads.values()):
                workload.reconcile()
            self._wake.clear()
            try:
                async with asyncio.timeout(0.5):
                    await self._wake.wait()
            except TimeoutError:
                pass

    # What the node needs

    def _place(self, container: Object, pod: Object, store: Store, volumes: Volumes) -> Place:
        image = self._image(container["image"])
        name = f"{pod['metadata']['name']}.{container['name']}"
        env = images.environment(image) | {"HOSTNAME": pod["metadata"]["name"]}
        addresses = {service.name: service.address for service in self.services.values()}
        if pod["spec"].get("enableServiceLinks", True):
            env |= service_links(store, addresses)
        env |= {"KUBERNETES_SERVICE_HOST": API_ADDRESS, "KUBERNETES_SERVICE_PORT": str(API_PORT)}
        own = variables(container, pod, store)
        argv = [expand(word, own) for word in image.argv(container)]
        root = self.folder / "roots" / name
        root.mkdir(exist_ok=True)
        hosts = {"path": "/etc/hosts", "source": str(self._hosts), "read_only": True}
        mounts = [*self._root_files.mounts, *images.hidden(image), hosts, *volumes.mounts(container)]
        spec = {
            "root": str(root),
            "links": self._root_files.links,
            "files": self._root_files.files,
            # Outer paths first: the repository may lie under /tmp, where a volume is mounted.
            "mounts": sorted(mounts, key=lambda mount: mount["path"].count("/")),
            "read_only_root": container.get("securityContext", {}).get("readOnlyRootFilesystem", False),
        }
        log = self.folder / "logs" / f"{name}.log"
        return Place(Command.of(container, pod, image, argv, env | own), spec, log)

    def _image(self, reference: str) -> Image:
        for name, image in self._images.items():
            if name in reference:
                return image
        raise ManifestError(f"there is nothing in place of the image {reference}")

    async def _serve(self, manifest: Object) -> None:
        name = manifest["metadata"]["name"]
        service = Service(manifest, self.node, f"{SERVICES}.{10 + len(self.services)}")
        self.services[name] = service
        if not service.is_headless:
            await service.start()

    def _name_services(self, *pods: Pod) -> None:
        """Into everybody's /etc/hosts. A headless Service is its newest pod."""
        lines = ["127.0.0.1 localhost", f"{API_ADDRESS} kubernetes kubernetes.default.svc"]
        for service in self.services.values():
            headless = [pod.address for pod in (*self.pods.values(), *pods) if service.selects(pod)][-1:]
            for address in headless if service.is_headless else [service.address]:
                name = f"{service.name}.{NAMESPACE}"
                lines.append(f"{address} {service.name} {name} {name}.svc {name}.svc.cluster.local")
        self._hosts.write_text("\n".join(lines) + "\n")

    # The API of the pods

    async def _start_api(self) -> None:
        tls, certificate = _certificate(self.folder)
        self._token = {
            "ca.crt": certificate,
            "token": TOKEN.encode(),
            "namespace": NAMESPACE.encode(),
        }
        self.api = FakeKubeApi(tls)
        await self.api.start()
        self._stack.push_async_callback(self.api.stop)
        self.node.own(API_ADDRESS)
        await self._bring(API_ADDRESS, API_PORT, self.api.port)

    async def _bring(self, address: str, port: int, to: int) -> None:
        listener = self.node.listen(address, port)
        server = await serve(listener, lambda: asyncio.open_connection("127.0.0.1", to), self._tasks)
        self._stack.callback(server.close)

    def _token_of(self, pod: Object) -> dict[str, bytes]:
        return self._token

    def _allow(self) -> None:
        """The rights on pods that any Role gives."""
        rules = [rule for each in Store(self._store).of_kind("Role") for rule in each.get("rules", [])]
        allowed = {verb for rule in rules if "pods" in rule["resources"] for verb in rule["verbs"]}
        self.api.refused = {word for word, verb in _VERBS.items() if verb not in allowed}

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _certificate(folder: Path) -> tuple[ssl.SSLContext, bytes]:
    """Of the API's own authority: for its server, and for pods."""
    key, certificate = folder / "key", folder / "ca.crt"
    names = ["-addext", f"subjectAltName=IP:{API_ADDRESS}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*_CERTIFICATE.split(), *names], check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    return tls, certificate.read_bytes()


def _is_hook(manifest: Object) -> bool:
    return "helm.sh/hook" in manifest["metadata"].get("annotations", {})
