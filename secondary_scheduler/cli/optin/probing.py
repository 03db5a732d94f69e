"""Pods that the API server is asked about with `dryRun=All`: what it would make of them. None is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.catalog import OPT_IN_LABEL, OPT_OUT_VALUE, SYSTEM_PRIORITY_CLASSES
from scheduler.kube.client import KubeError, SyncConnection, api_path
from secondary_scheduler.cli.errors import printable
from secondary_scheduler.cli.optinpolicies import DEFAULT_SCHEDULER
from secondary_scheduler.clusterstatus.listing import read_object
from secondary_scheduler.kubeobjects import KubeObject

ORDINARY = "ordinary"
SYSTEM_NAMESPACE = "kube-system"
OTHER_SCHEDULER = "another-scheduler.example.com"
_IMAGE = "registry.k8s.io/pause:3.10"
_UID = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Case:
    """A pod to ask about.

    Attributes:
        name: what is special about it.
        namespace: where it would be made.
        labels, owners, spec: of the pod, in addition to what every one has.
        excluded: why it must not be moved; "" for one that is moved as every ordinary pod is.
    """

    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Mapping[str, Any], ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)
    excluded: str = ""

    def manifest(self) -> KubeObject:
        """Return a pod that every pod security standard admits."""
        security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        container = {"name": "probe", "image": _IMAGE, "securityContext": security}
        requests = {"resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}}}
        spec = {
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{**container, **requests, **self.spec.get("container", {})}],
            **{key: value for key, value in self.spec.items() if key != "container"},
        }
        metadata: KubeObject = {"generateName": "opt-in-check-", "labels": dict(self.labels)}
        if self.owners:
            metadata["ownerReferences"] = [dict(owner) for owner in self.owners]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class ProbeAnswer:
    """What the API server would make of a pod: its schedulerName, or why it is refused."""

    case: Case
    scheduler_name: str = ""
    refusal: str = ""

    @property
    def moved(self) -> bool:
        """Whether the name is another one than the pod had."""
        return bool(self.scheduler_name) and self.scheduler_name != self.case.spec.get(
            "schedulerName", DEFAULT_SCHEDULER
        )


def cases(namespace: str, labels: Mapping[str, str]) -> Iterator[Case]:
    """Yield the pods for a namespace; the labels are those that bindings demand of a pod."""

    def case(name: str, excluded: str = "", **options: Any) -> Case:
        return Case(name, namespace, {**labels, **options.pop("labels", {})}, excluded=excluded, **options)

    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "probe", "uid": _UID, "controller": True}
    twice = [{"name": "TWICE", "value": "1"}, {"name": "TWICE", "value": "2"}]
    yield case(ORDINARY)
    yield case("duplicate env names", spec={"container": {"env": twice}})
    yield case("opted out by label", "its label opts it out", labels={OPT_IN_LABEL: OPT_OUT_VALUE})
    yield case("of a DaemonSet", "it is of a DaemonSet", owners=(owner,))
    yield case("with a node", "it has a node", spec={"nodeName": "probe"})
    yield case("names a scheduler", "it names a scheduler", spec={"schedulerName": OTHER_SCHEDULER})
    critical = {"priorityClassName": SYSTEM_PRIORITY_CLASSES[0]}
    yield case("of a system priority class", "it has a priority class of the system", spec=critical)
    if namespace != SYSTEM_NAMESPACE:
        yield Case("in kube-system", SYSTEM_NAMESPACE, labels, excluded="its namespace is the system's")


def ask(connection: SyncConnection, case: Case) -> ProbeAnswer:
    """Ask the API server about a pod; a refusal is an answer.

    Raises:
        KubeError: it does not answer.
    """
    path = api_path("v1", "pods", namespace=case.namespace)
    try:
        # Warnings (of guards, of duplicate names) are not about the question.
        body = connection.request("POST", path, body=case.manifest(), params={"dryRun": "All"})
    except KubeError as error:
        if getattr(error, "status", 0) not in (400, 403, 409, 422):
            raise
        return ProbeAnswer(case, refusal=printable(str(error)))
    return ProbeAnswer(case, str((read_object(body, path).get("spec") or {}).get("schedulerName") or DEFAULT_SCHEDULER))
