"""Whether pods are taken where a Pod Security Standard is enforced, by what the values may change in them."""

from __future__ import annotations

from collections.abc import Iterator

from dllm_stack.preflight.needs import Object, Workload

LABEL = "pod-security.kubernetes.io/enforce"

# Volumes that `restricted` takes.
_VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
    *("projected", "secret"),
}
_BASELINE_CAPABILITIES = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}


def objections(level: str, workload: Workload) -> set[str]:
    """What the level has against it, in words; of a level that is no standard's, nothing."""
    pod = workload.pod
    found: set[str] = set()
    if level in ("baseline", "restricted"):
        found |= set(_baseline(pod))
        for container in workload.containers:
            found |= set(_baseline_container(container.get("securityContext") or {}))
    if level == "restricted":
        found |= {
            f"a volume of {kind}"
            for volume in pod.get("volumes", [])
            for kind in volume.keys() - {"name", "hostPath"} - _VOLUMES
        }
        for container in workload.containers:
            context = {**(pod.get("securityContext") or {}), **(container.get("securityContext") or {})}
            found |= set(_restricted(context))
    return found


def _baseline(pod: Object) -> Iterator[str]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(name):
            yield name
    if any("hostPath" in volume for volume in pod.get("volumes", [])):
        yield "a hostPath volume"


def _baseline_container(context: Object) -> Iterator[str]:
    if context.get("privileged"):
        yield "privileged"
    added = set((context.get("capabilities") or {}).get("add") or [])
    for name in sorted(added - _BASELINE_CAPABILITIES):
        yield f"capability {name}"
    if (context.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield "seccomp Unconfined"


def _restricted(context: Object) -> Iterator[str]:
    capabilities = context.get("capabilities") or {}
    if context.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation"
    if "ALL" not in (capabilities.get("drop") or []):
        yield "capabilities that are not dropped"
    for name in sorted(set(capabilities.get("add") or []) - {"NET_BIND_SERVICE"}):
        yield f"capability {name}"
    if context.get("runAsNonRoot") is not True or context.get("runAsUser") == 0:
        yield "root"
    if (context.get("seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "no seccomp profile"
