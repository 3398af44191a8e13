"""The Pod Security Standards `baseline` and `restricted`, which has all of `baseline` in it, on one pod.

https://kubernetes.io/docs/concepts/security/pod-security-standards, as of Kubernetes 1.34. A cluster that
enforces one refuses pods for what is listed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from dllm_stack.preflight.needs import Object

Level = Literal["baseline", "restricted"]

LABEL = "pod-security.kubernetes.io/enforce"

_CAPABILITIES = {
    "baseline": {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    },
    "restricted": {"NET_BIND_SERVICE"},
}
_VOLUMES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",  # from 1.33 on, though the page does not list it: kubernetes/kubernetes#130394
    "persistentVolumeClaim",
    "projected",
    "secret",
)
_SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
)
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_SECCOMP = ("RuntimeDefault", "Localhost")
_APPARMOR = (None, "RuntimeDefault", "Localhost")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def violations(pod: Object, level: Level) -> list[str]:
    """What the level refuses, each with its field."""
    return [
        *_of_pod(pod, level),
        *_of_volumes(pod, level),
        *(violation for container in _containers(pod) for violation in _of_container(pod, *container, level)),
    ]


def _of_pod(pod: Object, level: Level) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield f"{field} must not be set"
    context = pod.get("securityContext") or {}
    if level == "restricted" and context.get("runAsUser") == 0:
        yield "securityContext.runAsUser must not be 0"
    yield from _of_context(context, "securityContext")
    for sysctl in context.get("sysctls") or []:
        if sysctl["name"] not in _SYSCTLS:
            yield f"securityContext.sysctls: {sysctl['name']} is not a safe one"


def _of_volumes(pod: Object, level: Level) -> Iterator[str]:
    for volume in pod.get("volumes") or []:
        for kind in volume.keys() - {"name"}:
            if kind == "hostPath" or (level == "restricted" and kind not in _VOLUMES):
                yield f"volumes.{volume['name']}: {kind} is not allowed"


def _containers(pod: Object) -> Iterator[tuple[str, Object]]:
    for group in _CONTAINERS:
        for container in pod.get(group) or []:
            yield f"{group}.{container['name']}", container


def _of_container(pod: Object, where: str, container: Object, level: Level) -> Iterator[str]:
    context = container.get("securityContext") or {}
    of_pod = pod.get("securityContext") or {}
    if context.get("privileged"):
        yield f"{where}: privileged must not be set"
    if context.get("procMount", "Default") != "Default":
        yield f"{where}: procMount must be Default"
    yield from _of_context(context, where)
    for port in container.get("ports") or []:
        if port.get("hostPort"):
            yield f"{where}: hostPort must not be set"
    yield from _of_probes(container, where)
    seccomp = (context.get("seccompProfile") or of_pod.get("seccompProfile") or {}).get("type")
    capabilities = context.get("capabilities") or {}
    added = set(capabilities.get("add") or [])
    if level == "restricted":
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{where}: allowPrivilegeEscalation must be false"
        if not context.get("runAsNonRoot", of_pod.get("runAsNonRoot")):
            yield f"{where}: runAsNonRoot must be true"
        if context.get("runAsUser") == 0:
            yield f"{where}: runAsUser must not be 0"
        if "ALL" not in (capabilities.get("drop") or []):
            yield f"{where}: capabilities.drop must have ALL"
    if seccomp not in (_SECCOMP if level == "restricted" else (*_SECCOMP, None)):
        yield f"{where}: seccompProfile.type must be RuntimeDefault or Localhost"
    for name in sorted(added - _CAPABILITIES[level]):
        yield f"{where}: capabilities.add must not have {name}"


def _of_context(context: Object, where: str) -> Iterator[str]:
    """What a pod's and a container's have in common."""
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield f"{where}: windowsOptions.hostProcess must not be set"
    if (context.get("appArmorProfile") or {}).get("type") not in _APPARMOR:
        yield f"{where}: appArmorProfile.type must be RuntimeDefault or Localhost"
    options = context.get("seLinuxOptions") or {}
    if options.get("type", "") not in _SELINUX_TYPES:
        yield f"{where}: seLinuxOptions.type {options['type']} is not allowed"
    for field in ("user", "role"):
        if options.get(field):
            yield f"{where}: seLinuxOptions.{field} must not be set"


def _of_probes(container: Object, where: str) -> Iterator[str]:
    """Since 1.34: the node must not be made to ask somebody else."""
    hooks = container.get("lifecycle") or {}
    asked = {name: container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")}
    for name, handler in (asked | hooks).items():
        for kind in ("httpGet", "tcpSocket"):
            if ((handler or {}).get(kind) or {}).get("host"):
                yield f"{where}: {name}.{kind}.host must not be set"
