"""A custom catalogue for OLM: an index image, or the address of a running registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

from .kube_object import KubeObject, child, name_of, rollout_timeouts

CATALOG_NAME = "secondary-scheduler-catalog"
_PATIENCE = 300


@dataclass(frozen=True)
class CatalogSourceArgs:
    """Exactly one of image and address.

    Attributes:
        namespace: of the CatalogSource; Subscriptions in the same namespace can use it.
        image: of a catalogue, run by OLM.
        address: host:port of a registry that speaks gRPC.
        ready_seconds: how long OLM may take to connect; default: five minutes.
    """

    namespace: pulumi.Input[str]
    image: pulumi.Input[str] | None = None
    address: pulumi.Input[str] | None = None
    ready_seconds: int | None = None


class CatalogSource(pulumi.ComponentResource):
    """The catalogue; done when OLM is connected to it."""

    name: pulumi.Output[str]

    def __init__(self, name: str, args: CatalogSourceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:CatalogSource", name, None, opts)
        spec: dict[str, Any] = {
            "sourceType": "grpc",
            "displayName": "Secondary scheduler",
            "publisher": "secondary-scheduler",
        }
        if args.image is not None:
            # Without it, the namespace's restricted pod security rejects OLM's pods.
            spec |= {"image": args.image, "grpcPodConfig": {"securityContextConfig": "restricted"}}
        if args.address is not None:
            spec["address"] = args.address
        source = KubeObject(
            f"{name}-catalogsource",
            {
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "CatalogSource",
                "metadata": {
                    "name": CATALOG_NAME,
                    "namespace": args.namespace,
                    "annotations": {"pulumi.com/waitFor": "jsonpath={.status.connectionState.lastObservedState}=READY"},
                },
                "spec": spec,
            },
            child(self, custom_timeouts=rollout_timeouts(args.ready_seconds or _PATIENCE)),
        )
        self.name = name_of(source)
        self.register_outputs({"name": self.name})
