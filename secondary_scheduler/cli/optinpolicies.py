"""The policies that opt pods in, as the cluster has them, and which pods they would move."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scheduler.catalog import (
    MUTATING_POLICY_FLAGS,
    MUTATING_POLICY_GATE,
    MUTATING_POLICY_GROUP,
    NEVER_OPTED_IN_PREFIXES,
    OPT_IN_COMPONENT,
    OPT_IN_SCHEDULER,
    SYSTEM_PRIORITY_CLASSES,
    minor_of,
    mutating_policies,
)
from scheduler.kube.client import KubeError, NotFound, SyncConnection, api_path
from scheduler.kube.model import LabelSelector
from scheduler.kube.primitives import EVERYTHING, Selector, SelectorError, label_selector
from secondary_scheduler.clusterstatus.listing import list_items, read_object
from secondary_scheduler.kubeobjects import KubeObject

DEFAULT_SCHEDULER = "default-scheduler"
VERSIONS = ("v1", "v1beta1")
"""Of the API group, the one that is preferred first."""
_LABEL = {"labelSelector": f"app.kubernetes.io/component={OPT_IN_COMPONENT}"}
_LIMIT = 1000
_GATE = re.compile(rf'^kubernetes_feature_enabled\{{name="{MUTATING_POLICY_GATE}"[^}}]*\}} ([01])$', re.MULTILINE)


class OptInReason(enum.StrEnum):
    """Why pods are moved, or are not; those with a dash prevent it, from the cluster down to the namespace."""

    MOVED = "moved"
    VERSION = "version"
    GATE_OFF = "gate-off"
    POLICY_MISSING = "policy-missing"
    BINDING_MISSING = "binding-missing"
    EXCLUSION = "exclusion"
    LABEL_MISSING = "label-missing"
    REFUSED = "refused"


@dataclass(frozen=True)
class Binding:
    """A binding: labels of namespaces, and of pods."""

    namespaces: Selector
    pods: Selector
    shown: str
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels with which a pod is selected, where they are easily found."""


@dataclass(frozen=True)
class OptInPolicy:
    """A policy with its bindings.

    Attributes:
        name: of the object.
        scheduler_name: what it writes; "" where its annotation does not say it.
        namespaces, pods: labels that its constraints demand.
        bindings: without one, it does nothing.
    """

    name: str
    scheduler_name: str
    namespaces: Selector = EVERYTHING
    pods: Selector = EVERYTHING
    bindings: tuple[Binding, ...] = ()

    def excludes(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether the policy itself leaves a namespace out, whatever opts it in."""
        return namespace.startswith(NEVER_OPTED_IN_PREFIXES) or not self.namespaces.matches(_named(namespace, labels))

    def opts_in(self, namespace: str, labels: Mapping[str, str]) -> list[Binding]:
        """Return the bindings that select a namespace."""
        return [binding for binding in self.bindings if binding.namespaces.matches(_named(namespace, labels))]

    def moves(self, namespace: str, labels: Mapping[str, str], pod: KubeObject) -> bool:
        """Tell whether it would write its name into a pod like this one if it were created again."""
        own = _mapping(_mapping(pod.get("metadata")).get("labels"))
        return (
            not self.excludes(namespace, labels)
            and self.pods.matches(own)
            and any(binding.pods.matches(own) for binding in self.opts_in(namespace, labels))
            and not exclusion(pod)
        )


def exclusion(pod: KubeObject) -> str:
    """Return why the policies leave a pod alone, whatever its namespace is; "" if they do not.

    A node counts only where the pod's controller wrote it, which is not seen in a pod that has been placed.
    """
    metadata, spec = _mapping(pod.get("metadata")), _mapping(pod.get("spec"))
    owners = [_mapping(owner).get("kind") for owner in metadata.get("ownerReferences") or ()]
    if (spec.get("schedulerName") or DEFAULT_SCHEDULER) != DEFAULT_SCHEDULER:
        return "it names a scheduler"
    if {"DaemonSet", "Node"} & set(owners):
        return "it is of a DaemonSet or a node"
    if spec.get("priorityClassName") in SYSTEM_PRIORITY_CLASSES:
        return "it has a priority class of the system"
    return ""


def served_version(connection: SyncConnection) -> str:
    """Return in which version the API server serves MutatingAdmissionPolicies; "" if it does not.

    Raises:
        KubeError: it does not say it.
    """
    return next((version for version in VERSIONS if serves(connection, version)), "")


def serves(connection: SyncConnection, version: str) -> bool:
    """Tell whether the API server serves MutatingAdmissionPolicies in a version.

    Raises:
        KubeError: it does not say it.
    """
    path = f"/apis/{MUTATING_POLICY_GROUP}/{version}"
    try:
        resources = read_object(connection.get(path), path).get("resources") or ()
    except NotFound:
        return False
    return any(_mapping(resource).get("name") == "mutatingadmissionpolicies" for resource in resources)


def not_served(kubernetes: str) -> tuple[OptInReason, str]:
    """Return why an API server of a version does not serve the policies, and what to do."""
    minor = minor_of(kubernetes)
    needs = mutating_policies(minor)
    if minor is not None and not needs.version:
        return OptInReason.VERSION, needs.note
    return OptInReason.GATE_OFF, (
        f"{kubernetes} does not serve MutatingAdmissionPolicies; start each API server with "
        f"{' and '.join(MUTATING_POLICY_FLAGS)}"
    )


def gate_enabled(connection: SyncConnection) -> bool | None:
    """Return what the metrics of the API server that answers say about the feature gate; None if they do not."""
    try:
        text = connection.get("/metrics").decode("utf-8", "replace")
    except KubeError:
        return None
    match = _GATE.search(text)
    return None if match is None else match[1] == "1"


def read_policies(connection: SyncConnection, version: str) -> list[OptInPolicy]:
    """Return the policies that opt pods in, ours and those made by hand with the same label.

    Raises:
        KubeError: they cannot be listed.
    """
    group = f"{MUTATING_POLICY_GROUP}/{version}"
    objects = list(list_items(connection, api_path(group, "mutatingadmissionpolicies"), _LABEL, limit=_LIMIT))
    # Every binding, as one that was made by hand may have no label.
    bound: dict[str, list[Binding]] = {}
    for item in list_items(connection, api_path(group, "mutatingadmissionpolicybindings"), limit=_LIMIT):
        spec = _mapping(item.get("spec"))
        binding = _binding(_mapping(spec.get("matchResources")))
        if binding is not None:
            bound.setdefault(str(spec.get("policyName")), []).append(binding)
    policies = (_policy(item, bound) for item in objects)
    return sorted((policy for policy in policies if policy is not None), key=lambda policy: policy.name)


def foreign_policies(connection: SyncConnection, version: str, expected: Collection[str]) -> list[str]:
    """Return policies that write `spec.schedulerName` and are not the expected ones, by name; and those of the expected
    names that another program made, as they have not our label.

    Raises:
        KubeError: they cannot be listed.
    """
    group = f"{MUTATING_POLICY_GROUP}/{version}"
    names = []
    for item in list_items(connection, api_path(group, "mutatingadmissionpolicies"), limit=_LIMIT):
        metadata = _mapping(item.get("metadata"))
        name, labels = str(metadata.get("name")), _mapping(metadata.get("labels"))
        ours = name in expected and labels.get("app.kubernetes.io/component") == OPT_IN_COMPONENT
        mutations = json.dumps(_mapping(item.get("spec")).get("mutations") or ())
        if not ours and (name in expected or "schedulerName" in mutations):
            names.append(name)
    return sorted(names)


def _policy(item: KubeObject, bound: Mapping[str, Sequence[Binding]]) -> OptInPolicy | None:
    metadata = _mapping(item.get("metadata"))
    constraints = _mapping(_mapping(item.get("spec")).get("matchConstraints"))
    namespaces, pods = _selectors(constraints)
    if namespaces is None or pods is None:
        return None
    name = str(metadata.get("name"))
    scheduler_name = str(_mapping(metadata.get("annotations")).get(OPT_IN_SCHEDULER) or "")
    return OptInPolicy(name, scheduler_name, namespaces, pods, tuple(bound.get(name, ())))


def _binding(matched: KubeObject) -> Binding | None:
    namespaces, pods = _selectors(matched)
    if namespaces is None or pods is None:
        return None
    labels = dict(_example_labels(_mapping(matched.get("objectSelector"))))
    return Binding(namespaces, pods, ", ".join(_shown(_mapping(matched.get("namespaceSelector")))), labels)


def _selectors(matched: KubeObject) -> tuple[Selector | None, Selector | None]:
    """The selectors of namespaces and objects; None for one that is not valid, which no API server stores."""
    return _selector(matched.get("namespaceSelector")), _selector(matched.get("objectSelector"))


def _selector(manifest: Any) -> Selector | None:
    try:
        return label_selector(msgspec.convert(manifest or {}, LabelSelector))
    except (msgspec.ValidationError, SelectorError):
        return None


def _example_labels(selector: KubeObject) -> Iterator[tuple[str, str]]:
    yield from _mapping(selector.get("matchLabels")).items()
    for expression in selector.get("matchExpressions") or ():
        if expression.get("operator") in ("In", "Exists"):
            yield str(expression["key"]), str((expression.get("values") or ["true"])[0])


def _shown(selector: KubeObject) -> Iterator[str]:
    for key, value in _mapping(selector.get("matchLabels")).items():
        yield f"{key}={value}"
    for expression in selector.get("matchExpressions") or ():
        values = f" ({','.join(expression['values'])})" if expression.get("values") else ""
        yield f"{expression.get('key')} {expression.get('operator')}{values}"


def _named(namespace: str, labels: Mapping[str, str]) -> Mapping[str, str]:
    """The labels with the one that every API server since 1.21 sets."""
    return {**labels, "kubernetes.io/metadata.name": namespace}


def _mapping(value: Any) -> KubeObject:
    return value if isinstance(value, dict) else {}
