"""The namespace in which operator and scheduler live."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from .kube_object import child, name_of

# Upstream's operator and its documentation know only this name.
NAMESPACE = "openshift-secondary-scheduler-operator"


def cluster_scoped_name(name: str, namespace: pulumi.Input[str]) -> pulumi.Input[str]:
    """Return the name of an object that has no namespace itself and belongs to an installation in this one.

    It is the plain name in the usual namespace, so that two installations on one cluster do not meet.
    """

    def prefixed(known: str) -> str:
        return name if known == NAMESPACE else f"{known}.{name}"

    return prefixed(namespace) if isinstance(namespace, str) else pulumi.Output.concat(namespace).apply(prefixed)


@dataclass(frozen=True)
class NamespaceArgs:
    """Attributes:
    name: the namespace.
    protect: refuse to delete it, and so everything in it.
    """

    name: pulumi.Input[str] = NAMESPACE
    protect: bool = False


class Namespace(pulumi.ComponentResource):
    """The namespace, with restricted pod security enforced and, on OpenShift, cluster monitoring switched on."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: NamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:Namespace", name, None, opts)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata={
                "name": args.name,
                "labels": {
                    "openshift.io/cluster-monitoring": "true",
                    "pod-security.kubernetes.io/enforce": "restricted",
                    "pod-security.kubernetes.io/audit": "restricted",
                    "pod-security.kubernetes.io/warn": "restricted",
                },
            },
            opts=child(self, protect=args.protect or None),
        )
        self.name = name_of(namespace)
        self.register_outputs({"name": self.name})
