"""Who schedules the pods of which namespaces, and how many would change at the next rollout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from scheduler.answers import Document
from scheduler.catalog import MUTATING_POLICY_FLAGS
from scheduler.kube.client import KubeError, SyncConnection, api_path
from secondary_scheduler.cli.errors import explained
from secondary_scheduler.cli.optinpolicies import DEFAULT_SCHEDULER, OptInPolicy, OptInReason, not_served
from secondary_scheduler.clusterstatus.listing import list_items
from secondary_scheduler.kubeobjects import KubeObject

MAX_NAMES = 100
"""Scheduler names that are counted apart in a namespace; a tenant can make up any number."""
OTHERS = "(others)"
_ATTEMPT_SECONDS = 60.0
"""A scheduler looks at a pod within this time, or it is not there; a long queue can take longer."""
_MAX_EXAMPLES = 3
_TEMPLATE = ("spec", "template", "spec")
_TEMPLATES: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("apps/v1", "deployments", _TEMPLATE),
    ("apps/v1", "statefulsets", _TEMPLATE),
    ("apps/v1", "replicasets", _TEMPLATE),
    ("batch/v1", "cronjobs", ("spec", "jobTemplate", "spec", "template", "spec")),
    ("batch/v1", "jobs", _TEMPLATE),
)
"""What makes pods; no DaemonSet, as its pods are never moved."""
Say = Callable[[str], None]


class NamespaceStatus(Struct, rename="camel"):
    """One namespace.

    Attributes:
        name: of the namespace.
        opted_in: schedulerNames that policies write into its new pods.
        pods, templates: how many name which scheduler. Pods that have ended, and templates of objects that a
            controller made, are not counted.
        moving: pods whose replacement would get another scheduler's name than they have.
    """

    name: str
    opted_in: tuple[str, ...] = ()
    pods: dict[str, int] = {}
    templates: dict[str, int] = {}
    moving: int = 0


class UnservedName(Struct):
    """A schedulerName that nobody seems to serve.

    Attributes:
        waiting: pods that no scheduler has looked at, though they are old enough.
        templates: how many name it.
        examples: some of the pods or namespaces.
    """

    name: str = field(name="schedulerName")
    waiting: int = field(default=0, name="waitingPods")
    templates: int = 0
    examples: list[str] = []

    def note(self, example: str) -> None:
        """Remember an example, if there are few."""
        if len(self.examples) < _MAX_EXAMPLES and example not in self.examples:
            self.examples.append(example)


class OptInStatus(Document, frozen=True, kw_only=True):
    """What policies would move, and what nobody places."""

    namespaces: list[NamespaceStatus]
    unserved: list[UnservedName]


class Census:
    """Counts what pages of pods and templates hold; keeps no object."""

    def __init__(self, policies: Sequence[OptInPolicy], labels: Mapping[str, Mapping[str, str]], now: datetime) -> None:
        """Count for these namespaces, by their labels; objects of other namespaces are left out."""
        self._policies, self._labels, self._now = policies, labels, now
        self._served = {DEFAULT_SCHEDULER}
        self._unserved: dict[str, UnservedName] = {}
        self.namespaces = {
            name: NamespaceStatus(name, tuple(_opted_in(policies, name, own))) for name, own in sorted(labels.items())
        }

    def serve(self, names: Iterable[str]) -> None:
        """Note names that somebody says to serve."""
        self._served.update(names)

    def add_pod(self, pod: KubeObject) -> None:
        """Count a pod."""
        metadata, spec, status = (pod.get(key) or {} for key in ("metadata", "spec", "status"))
        namespace = str(metadata.get("namespace"))
        counted = self.namespaces.get(namespace)
        if counted is None or status.get("phase") in ("Succeeded", "Failed"):
            return
        name = str(spec.get("schedulerName") or DEFAULT_SCHEDULER)
        _count(counted.pods, name)
        if metadata.get("ownerReferences"):  # a bare pod is replaced by nobody
            labels = self._labels[namespace]
            moves = any(policy.moves(namespace, labels, pod) for policy in self._policies)
            counted.moving += moves
        if spec.get("nodeName") or _was_tried(status):
            self._note_served(name)
        elif not spec.get("schedulingGates") and self._age(metadata) > _ATTEMPT_SECONDS:
            entry = self._entry(name)
            entry.waiting += 1
            entry.note(f"{namespace}/{metadata.get('name')}")

    def add_template(self, item: KubeObject, path: Sequence[str]) -> None:
        """Count the template of an object that makes pods, unless another object made it."""
        metadata = item.get("metadata") or {}
        counted = self.namespaces.get(str(metadata.get("namespace")))
        if counted is None or any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
            return
        spec: Any = item
        for key in path:
            spec = spec.get(key) or {}
        name = str(spec.get("schedulerName") or DEFAULT_SCHEDULER)
        _count(counted.templates, name)
        if name != DEFAULT_SCHEDULER:
            entry = self._entry(name)
            entry.templates += 1
            entry.note(f"{counted.name}/{metadata.get('name')}")

    def status(self) -> OptInStatus:
        """Return what was counted; nobody serves names whose pods wait without an attempt, and those that only
        templates name."""
        unserved = (entry for entry in self._unserved.values() if entry.waiting or entry.name not in self._served)
        return OptInStatus(
            namespaces=list(self.namespaces.values()),
            unserved=sorted(unserved, key=lambda entry: (-entry.waiting, entry.name)),
        )

    def _note_served(self, name: str) -> None:
        if len(self._served) < 10 * MAX_NAMES:
            self._served.add(name)

    def _entry(self, name: str) -> UnservedName:
        if name not in self._unserved and len(self._unserved) >= MAX_NAMES:
            name = OTHERS
        return self._unserved.setdefault(name, UnservedName(name))

    def _age(self, metadata: KubeObject) -> float:
        try:
            created = datetime.fromisoformat(str(metadata.get("creationTimestamp")))
        except ValueError:
            return 0.0
        return (self._now - created).total_seconds()


def take_census(connection: SyncConnection, census: Census, namespace: str | None, say: Say) -> None:
    """Count pods and templates of a namespace (None: of all); a kind that cannot be listed is said and left out.

    Raises:
        KubeError: pods cannot be listed.
    """
    census.serve(_served_by_ours(connection))
    for pod in list_items(connection, api_path("v1", "pods", namespace=namespace)):
        census.add_pod(pod)
    for api_version, plural, path in _TEMPLATES:
        try:
            for item in list_items(connection, api_path(api_version, plural, namespace=namespace)):
                census.add_template(item, path)
        except KubeError as error:
            say(f"left out {plural}: {explained(error)}")


def _served_by_ours(connection: SyncConnection) -> list[str]:
    """What SecondarySchedulers say to serve; nothing where they cannot be read."""
    path = api_path("operator.openshift.io/v1", "secondaryschedulers")
    try:
        items = list(list_items(connection, path, limit=MAX_NAMES))
    except KubeError:
        return []
    return [str(name) for item in items for name in (item.get("status") or {}).get("schedulerNames") or ()]


def _opted_in(policies: Sequence[OptInPolicy], namespace: str, labels: Mapping[str, str]) -> list[str]:
    return [
        policy.scheduler_name or policy.name
        for policy in policies
        if policy.opts_in(namespace, labels) and not policy.excludes(namespace, labels)
    ]


def _count(counts: dict[str, int], name: str) -> None:
    key = name if name in counts or len(counts) < MAX_NAMES else OTHERS
    counts[key] = counts.get(key, 0) + 1


def _was_tried(status: KubeObject) -> bool:
    return any(condition.get("type") == "PodScheduled" for condition in status.get("conditions") or ())


@dataclass(frozen=True)
class OptInSituation:
    """What is known of cluster and namespace.

    Attributes:
        kubernetes: the API server's version.
        served: in which version it serves MutatingAdmissionPolicies; "" if it does not.
        gate: what its metrics say about the feature gate; None if nothing.
        policies: those that opt pods in.
        namespace, labels: the namespace.
    """

    kubernetes: str
    served: str
    gate: bool | None
    policies: Sequence[OptInPolicy]
    namespace: str
    labels: Mapping[str, str]

    def obstacle(self) -> tuple[OptInReason, str] | None:
        """Return what keeps every policy from moving an ordinary pod, as far as objects show it; None for nothing."""
        if not self.served:
            return not_served(self.kubernetes)
        if not self.policies:
            return OptInReason.POLICY_MISSING, "no policy opts pods in; set optIn.mechanism of the stack to policy"
        obstacles = [_of_policy(policy, self.namespace, self.labels) for policy in self.policies]
        if None in obstacles:
            return None
        # The one that is closest to moving pods.
        return max(
            (obstacle for obstacle in obstacles if obstacle is not None),
            key=lambda obstacle: list(OptInReason).index(obstacle[0]),
        )

    def not_evaluated(self) -> tuple[OptInReason, str]:
        """Return what is said where everything matches and the pod keeps its scheduler."""
        flags = " and ".join(MUTATING_POLICY_FLAGS)
        if self.gate:
            return OptInReason.GATE_OFF, (
                "policy, binding and labels match, and the policy is not applied, although the API server that was "
                f"asked has the feature gate on: another one may have it off; each needs {flags}"
            )
        evidence = "as its metrics say" if self.gate is False else "which its metrics do not say"
        return OptInReason.GATE_OFF, (
            "policy, binding and labels match, and the policy is not applied: the API server stores it and does not "
            f"evaluate it, as with the feature gate off ({evidence}); start each with {flags}"
        )


def _of_policy(policy: OptInPolicy, namespace: str, labels: Mapping[str, str]) -> tuple[OptInReason, str] | None:
    if not policy.bindings:
        return OptInReason.BINDING_MISSING, f"{policy.name} has no MutatingAdmissionPolicyBinding, so it does nothing"
    if policy.excludes(namespace, labels):
        return OptInReason.EXCLUSION, f"{policy.name} excludes the namespace {namespace}, whatever its labels are"
    if not policy.opts_in(namespace, labels):
        selectors = " or ".join(binding.shown for binding in policy.bindings)
        return OptInReason.LABEL_MISSING, f"the namespace {namespace} has not the labels of {policy.name}: {selectors}"
    return None
