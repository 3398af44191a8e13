"""What is made up about pods: how they end, or that they run."""

from __future__ import annotations

from tests.helm.fake_kube_api.kinds import Object

NOT_THERE = ":not-there"
FAILS = ":fails"
NOW = "2026-01-01T00:00:00Z"


def status(spec: Object) -> Object:
    images = [container["image"] for container in spec["containers"]]
    phase, state = _fate(images, ends=spec.get("restartPolicy", "Always") != "Always")
    ready = phase == "Running"
    return {
        "phase": phase,
        "startTime": NOW,
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "ready": ready,
                "restartCount": 0,
                "state": state,
            }
            for container in spec["containers"]
        ],
    }


def _fate(images: list[str], *, ends: bool) -> tuple[str, Object]:
    """The phase of a pod, and the state of its containers."""
    if any(image.endswith(NOT_THERE) for image in images):
        return "Pending", {"waiting": {"reason": "ImagePullBackOff"}}
    if any(image.endswith(FAILS) for image in images):
        return "Failed", {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": NOW}}
    if ends:
        return "Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": NOW}}
    return "Running", {"running": {"startedAt": NOW}}


def can_be_pulled(template: Object) -> bool:
    return not any(container["image"].endswith(NOT_THERE) for container in template["spec"]["containers"])


def is_ready(pod: Object) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def has_failed(pod: Object) -> bool:
    return bool(pod["status"]["phase"] == "Failed")
