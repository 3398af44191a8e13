"""The kinds that the fake serves: a cluster's own, of which charts and the preflight use some, and those of
operators, which a test may add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

# What `kubectl get all` shows.
_ALL = {"Pod", "Service", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"}
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Kind:
    """
    Attributes:
        group: "" for the core.
        subresources: what may follow an object's name in a path.
    """

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[str, ...] = ("status",)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def categories(self) -> list[str]:
        return ["all"] if self.name in _ALL else []

    @property
    def root(self) -> str:
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def resource(self) -> str:
        """As in messages: `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_ASKED = ("create",)  # answered and never stored

OWN = (
    Kind("", "v1", "namespaces", "Namespace", False, ("ns",)),
    Kind("", "v1", "nodes", "Node", False, ("no",)),
    Kind("", "v1", "pods", "Pod", short=("po",), subresources=("status", "log")),
    Kind("", "v1", "services", "Service", short=("svc",)),
    Kind("", "v1", "configmaps", "ConfigMap", short=("cm",), subresources=()),
    Kind("", "v1", "secrets", "Secret", subresources=()),
    Kind("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",), subresources=()),
    Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",)),
    Kind("", "v1", "persistentvolumes", "PersistentVolume", False, ("pv",)),
    Kind("", "v1", "resourcequotas", "ResourceQuota", short=("quota",)),
    Kind("", "v1", "limitranges", "LimitRange", short=("limits",), subresources=()),
    Kind("", "v1", "events", "Event", short=("ev",), subresources=()),
    Kind("apps", "v1", "deployments", "Deployment", short=("deploy",)),
    Kind("apps", "v1", "replicasets", "ReplicaSet", short=("rs",)),
    Kind("apps", "v1", "statefulsets", "StatefulSet", short=("sts",)),
    Kind("apps", "v1", "daemonsets", "DaemonSet", short=("ds",)),
    Kind("batch", "v1", "jobs", "Job"),
    Kind("batch", "v1", "cronjobs", "CronJob", short=("cj",)),
    Kind("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", short=("hpa",)),
    Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",)),
    Kind("networking.k8s.io", "v1", "ingresses", "Ingress", short=("ing",)),
    Kind("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False, subresources=()),
    Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",), subresources=()),
    Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", subresources=()),
    Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", subresources=()),
    Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False, subresources=()),
    Kind(
        "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False, subresources=()
    ),
    Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",), subresources=()),
    Kind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, subresources=()),
    Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, ("sc",), subresources=()),
    Kind("coordination.k8s.io", "v1", "leases", "Lease", subresources=()),
    Kind(
        "authorization.k8s.io",
        "v1",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        False,
        verbs=_ASKED,
        subresources=(),
    ),
)

# What the operators bring that a chart can make use of. The fake takes any content of theirs.
KEDA = (
    Kind("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject", short=("so",)),
    Kind("keda.sh", "v1alpha1", "triggerauthentications", "TriggerAuthentication"),
)
PROMETHEUS_OPERATOR = (
    Kind("monitoring.coreos.com", "v1", "podmonitors", "PodMonitor"),
    Kind("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor"),
    Kind("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule"),
)
GATEWAY_API = (
    Kind("gateway.networking.k8s.io", "v1", "gateways", "Gateway"),
    Kind("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute"),
    Kind("gateway.networking.k8s.io", "v1", "gatewayclasses", "GatewayClass", False),
)
OPERATORS = (*KEDA, *PROMETHEUS_OPERATOR, *GATEWAY_API)
