"""Specs of the admission policies that opt pods in, and that warn of scheduler names.

The mutation is a JSONPatch: an ApplyConfiguration decodes the whole pod by its schema, which fails on Kubernetes 1.34
where two environment variables or ports of a container have one name, and such pods would be left out in silence.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from scheduler.catalog import (
    NEVER_OPTED_IN,
    NEVER_OPTED_IN_PREFIXES,
    OPT_IN_LABEL,
    OPT_OUT_VALUE,
    SYSTEM_PRIORITY_CLASSES,
)

from .settings import DEFAULT_SCHEDULER, LabelSelectorSettings, OptInTarget

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_NAME = (
    "{0}.?spec.?template.?spec.?schedulerName"
    ".or({0}.?spec.?jobTemplate.?spec.?template.?spec.?schedulerName)"
    ".or({0}.?spec.?schedulerName).orValue({1})"
)
"""The scheduler that a pod, a template or a CronJob names."""
# Written out as the API server stores them: atomic fields would differ from the stored ones otherwise.
_MATCH_DEFAULTS = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


def opt_in_policy(scheduler_name: str, excluded: Collection[str]) -> dict[str, Any]:
    """Return the spec of the MutatingAdmissionPolicy that writes a schedulerName.

    What must never be moved is excluded here, so that no label and no binding can bring it in. If it cannot be
    evaluated, the default scheduler places the pod.

    Args:
        scheduler_name: what is written.
        excluded: namespaces in addition to those of the system.
    """
    namespaces = sorted({*NEVER_OPTED_IN, *excluded})
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    prefixes = " && ".join(f"!request.namespace.startsWith({_cel(prefix)})" for prefix in NEVER_OPTED_IN_PREFIXES)
    conditions = {
        "names-no-scheduler": f"object.spec.schedulerName == {_cel(DEFAULT_SCHEDULER)}",
        "has-no-node": "!has(object.spec.nodeName) || object.spec.nodeName == ''",
        # Of any group: others that make one pod per node, such as OpenKruise's, have the same reasons.
        "is-of-no-daemonset-or-node": "!has(object.metadata.ownerReferences) || "
        "!object.metadata.ownerReferences.exists(o, o.kind == 'DaemonSet' || o.kind == 'Node')",
        "is-not-critical": "!has(object.spec.priorityClassName) || "
        f"!(object.spec.priorityClassName in {_cel(list(SYSTEM_PRIORITY_CLASSES))})",
        "is-not-of-the-system": prefixes,
    }
    patch = f"[JSONPatch{{op: 'replace', path: '/spec/schedulerName', value: {_cel(scheduler_name)}}}]"
    return {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {
                "matchExpressions": [{"key": _NAMESPACE_NAME, "operator": "NotIn", "values": namespaces}]
            },
            "objectSelector": {
                "matchExpressions": [{"key": OPT_IN_LABEL, "operator": "NotIn", "values": [OPT_OUT_VALUE]}]
            },
            "resourceRules": [{**rule, "scope": "*"}],
        },
        "matchConditions": [{"name": name, "expression": expression} for name, expression in conditions.items()],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }


def matched_by(target: OptInTarget) -> dict[str, Any]:
    """Return `matchResources` of the binding that opts a target's pods in."""
    pods = target.pods.manifest() if target.pods is not None else {}
    return {**_MATCH_DEFAULTS, "namespaceSelector": target.namespaces.manifest(), "objectSelector": pods}


def guard_policy(targets: Sequence[OptInTarget], *, denies: bool) -> dict[str, Any]:
    """Return the spec of the ValidatingAdmissionPolicy for pods that name a scheduler without having opted in.

    A name that an object had before is not judged: a workload of before can still be scaled.

    Args:
        targets: schedulers and the namespaces that may use them.
        denies: whether it refuses, or only warns; then a failure of the policy itself stops nothing.
    """
    return {
        "failurePolicy": "Fail" if denies else "Ignore",
        "matchConstraints": _templates(),
        "variables": [*_variables(), {"name": "labels", "expression": "namespaceObject.metadata.?labels.orValue({})"}],
        "validations": [
            {
                "expression": f"variables.name != {_cel(target.scheduler_name)} || variables.name == variables.before"
                f" || ({_selected(target.namespaces)})",
                "message": f"schedulerName {target.scheduler_name} is for namespaces with "
                f"{selector_text(target.namespaces)}, and this one is not; label it, or use another scheduler",
                "reason": "Forbidden",
            }
            for target in targets
        ],
    }


def names_policy(served: Collection[str]) -> dict[str, Any]:
    """Return the spec of the ValidatingAdmissionPolicy that warns of names that nobody is known to serve."""
    return {
        "failurePolicy": "Ignore",
        "matchConstraints": _templates(),
        "variables": _variables(),
        "validations": [
            {
                "expression": f"variables.name == variables.before || variables.name in {_cel(sorted(served))}",
                "message": "no scheduler is known to serve this schedulerName, and its pods would wait without any "
                f"event; known are {', '.join(sorted(served))} (others: setting optIn.otherSchedulers)",
                "reason": "Invalid",
            }
        ],
    }


def selector_text(selector: LabelSelectorSettings) -> str:
    """Return a selector as kubectl writes it."""
    parts = []
    for requirement in selector.requirements():
        values = ",".join(requirement.values)
        if requirement.operator == "In" and len(requirement.values) == 1:
            parts.append(f"{requirement.key}={values}")
        elif requirement.operator in ("In", "NotIn"):
            parts.append(f"{requirement.key} {requirement.operator.lower()} ({values})")
        else:
            parts.append(requirement.key if requirement.operator == "Exists" else f"!{requirement.key}")
    return ", ".join(parts)


def _templates() -> dict[str, Any]:
    """Pods and what makes them: a warning about a pod goes to a controller, which nobody reads."""

    def rule(group: str, resources: list[str], *operations: str) -> dict[str, Any]:
        versions = {"apiGroups": [group], "apiVersions": ["v1"]}
        return {**versions, "operations": list(operations), "resources": resources, "scope": "*"}

    workloads = ["deployments", "replicasets", "statefulsets"]
    rules = [
        rule("", ["pods"], "CREATE"),
        rule("apps", workloads, "CREATE", "UPDATE"),
        rule("batch", ["cronjobs", "jobs"], "CREATE", "UPDATE"),
    ]
    return {"resourceRules": rules, **_MATCH_DEFAULTS}


def _variables() -> list[dict[str, str]]:
    default = _cel(DEFAULT_SCHEDULER)
    before = f"oldObject == null ? '' : {_NAME.format('oldObject', default)}"
    return [
        {"name": "name", "expression": _NAME.format("object", default)},
        {"name": "before", "expression": before},
    ]


def _selected(selector: LabelSelectorSettings) -> str:
    """Return a CEL expression that tells whether the namespace's labels match."""
    labels, parts = "variables.labels", []
    for each in selector.requirements():
        key = _cel(each.key)
        present = f"{key} in {labels}"
        has_value = f"({present} && {labels}[{key}] in {_cel(list(each.values))})"
        forms = {"In": has_value, "NotIn": f"!{has_value}", "Exists": f"({present})", "DoesNotExist": f"!({present})"}
        parts.append(forms[each.operator])
    return " && ".join(parts)


def _cel(value: str | list[str]) -> str:
    """Return a literal of CEL, whose strings and lists are written as JSON's."""
    return json.dumps(value)
