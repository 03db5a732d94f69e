"""What opts pods in: names that the Pulumi program writes into admission policies and the command line looks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OPT_IN_LABEL: Final = "secondary-scheduler.io/pods"
"""Label of a namespace whose pods are moved, and with `OPT_OUT_VALUE` of a pod that is not."""
OPT_IN_VALUE: Final = "true"
OPT_OUT_VALUE: Final = "false"
OPT_IN_COMPONENT: Final = "opt-in"
"""`app.kubernetes.io/component` of the policies and bindings."""
OPT_IN_POLICY: Final = "secondary-scheduler-opt-in"
"""What the names of the policies of a stack begin with; a dot and the schedulerName follow."""
OPT_IN_SCHEDULER: Final = "secondary-scheduler.io/opt-in-scheduler"
"""Annotation of a policy: the schedulerName that it writes."""
NEVER_OPTED_IN: Final = ("kube-system", "kube-public", "kube-node-lease")
"""Namespaces whose pods must start while the scheduler is down."""
NEVER_OPTED_IN_PREFIXES: Final = ("kube-", "openshift-")
SYSTEM_PRIORITY_CLASSES: Final = ("system-cluster-critical", "system-node-critical")
MUTATING_POLICY_GATE: Final = "MutatingAdmissionPolicy"
MUTATING_POLICY_GROUP: Final = "admissionregistration.k8s.io"
MUTATING_POLICY_FLAGS: Final = (
    f"--feature-gates={MUTATING_POLICY_GATE}=true",
    f"--runtime-config={MUTATING_POLICY_GROUP}/v1beta1=true",
)
"""Of every API server, where the policies are beta."""
_FIRST_BETA, _FIRST_STABLE = 34, 36


@dataclass(frozen=True)
class MutatingPolicies:
    """How a minor of Kubernetes has MutatingAdmissionPolicies.

    Attributes:
        version: of the API group; empty where we use none of it.
        note: what is to be known about it; empty for nothing.
    """

    version: str
    note: str = ""

    @property
    def api_version(self) -> str:
        """As in manifests."""
        return f"{MUTATING_POLICY_GROUP}/{self.version}"


def mutating_policies(minor: int | None) -> MutatingPolicies:
    """Return how Kubernetes 1.`minor` has these policies; for None, how the newest releases do."""
    if minor is None:
        return MutatingPolicies(
            "v1",
            f"the cluster's version is not known: Kubernetes 1.{_FIRST_STABLE} or newer is assumed, as older ones do "
            "not serve the policy as v1; name the version (cluster.kubernetesVersion)",
        )
    if minor < _FIRST_BETA:
        return MutatingPolicies(
            "",
            f"Kubernetes 1.{minor} has MutatingAdmissionPolicies as alpha or not at all; use 1.{_FIRST_BETA} or newer, "
            "a mutating webhook, or schedulerName in the pod templates",
        )
    if minor < _FIRST_STABLE:
        return MutatingPolicies(
            "v1beta1",
            f"Kubernetes 1.{minor} stores the policy and does not evaluate it unless every API server is started with "
            f"{' and '.join(MUTATING_POLICY_FLAGS)}; `secondary-scheduler opt-in check` tells whether it is evaluated",
        )
    return MutatingPolicies("v1")
