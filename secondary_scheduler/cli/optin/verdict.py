"""Why an ordinary pod of a namespace is moved, or is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.catalog import MUTATING_POLICY_FLAGS
from secondary_scheduler.cli.optinpolicies import Policy, Reason, not_served


@dataclass(frozen=True)
class Situation:
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
    policies: Sequence[Policy]
    namespace: str
    labels: Mapping[str, str]

    def obstacle(self) -> tuple[Reason, str] | None:
        """Return what keeps every policy from moving an ordinary pod, as far as objects show it; None for nothing."""
        if not self.served:
            return not_served(self.kubernetes)
        if not self.policies:
            return Reason.POLICY_MISSING, "no policy opts pods in; set optIn.mechanism of the stack to policy"
        obstacles = [_of_policy(policy, self.namespace, self.labels) for policy in self.policies]
        if None in obstacles:
            return None
        # The one that is closest to moving pods.
        return max(
            (obstacle for obstacle in obstacles if obstacle is not None), key=lambda each: list(Reason).index(each[0])
        )

    def not_evaluated(self) -> tuple[Reason, str]:
        """Return what is said where everything matches and the pod keeps its scheduler."""
        flags = " and ".join(MUTATING_POLICY_FLAGS)
        if self.gate:
            return Reason.GATE_OFF, (
                "policy, binding and labels match, and the policy is not applied, although the API server that was "
                f"asked has the feature gate on: another one may have it off; each needs {flags}"
            )
        evidence = "as its metrics say" if self.gate is False else "which its metrics do not say"
        return Reason.GATE_OFF, (
            "policy, binding and labels match, and the policy is not applied: the API server stores it and does not "
            f"evaluate it, as with the feature gate off ({evidence}); start each with {flags}"
        )


def _of_policy(policy: Policy, namespace: str, labels: Mapping[str, str]) -> tuple[Reason, str] | None:
    if not policy.bindings:
        return Reason.BINDING_MISSING, f"{policy.name} has no MutatingAdmissionPolicyBinding, so it does nothing"
    if policy.excludes(namespace, labels):
        return Reason.EXCLUSION, f"{policy.name} excludes the namespace {namespace}, whatever its labels are"
    if not policy.opts_in(namespace, labels):
        wanted = " or ".join(binding.shown for binding in policy.bindings)
        return Reason.LABEL_MISSING, f"the namespace {namespace} has not the labels of {policy.name}: {wanted}"
    return None
