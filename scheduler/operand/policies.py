"""Admission policies of the API server: their usual parts, and the one that bounds a rebalancer's evictions."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

Json = dict[str, Any]

EVICTION_POLICY_BINDING: Json = {
    "validationActions": ["Deny"],
    # All pods of the namespace in which one is to be evicted.
    "paramRef": {"selector": {}, "parameterNotFoundAction": "Deny"},
}
"""What binds the policy for evictions, without its name."""


def cel(value: str | list[str]) -> str:
    """Return a literal of CEL, whose strings and lists are written as JSON's."""
    return json.dumps(value)


def constraints(group: str, resources: list[str], operations: Sequence[str] = ("CREATE", "UPDATE")) -> Json:
    """Return the constraints of a policy with the API server's defaults written out.

    The field is atomic in server-side apply: without them it differs from what is there, and the update that adopts a
    policy that `kubectl` applied ends with a conflict.
    """
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": list(operations), "resources": resources}
    defaults = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    return {"resourceRules": [{**rule, "scope": "*"}], **defaults}


def evictions_policy(namespace: str, account: str, scheduler_names: Iterable[str]) -> Json:
    """Return the spec of the policy for a rebalancer's evictions: only of pods that name one of its profiles.

    An Eviction does not show its pod. So the pods of its namespace are the policy's parameters: the API server judges
    with each of them, from the copy of all pods that its Node authorizer keeps, and only the one of that name counts.

    Args:
        namespace, account: the rebalancer's ServiceAccount.
        scheduler_names: of the profiles.
    """
    user = f"system:serviceaccount:{namespace}:{account}"
    names = sorted(scheduler_names)
    return {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "Pod"},
        "matchConstraints": constraints("", ["pods/eviction"], ["CREATE"]),
        "matchConditions": [{"name": "by-the-rebalancer", "expression": f"request.userInfo.username == {cel(user)}"}],
        "validations": [
            {
                "expression": f"params.metadata.name != request.name || params.spec.schedulerName in {cel(names)}",
                "message": f"the rebalancer evicts only pods whose spec.schedulerName is {' or '.join(names)}",
                "reason": "Forbidden",
            }
        ],
    }
