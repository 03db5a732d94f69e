"""The resource class of every object that this program creates, and the provider through which it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import pulumi

Manifest = Mapping[str, Any]


class KubeObject(pulumi.CustomResource):
    """One Kubernetes object, given as its whole manifest; values may be Outputs.

    The SDK's typed classes are not used: importing the modules of Namespace, Deployment and RBAC alone adds about a
    second to every preview, its `CustomResource` drops everything but `spec`, and neither exposes `status`. The type
    token is the SDK's own, so state and official provider see no difference.
    """

    metadata: pulumi.Output[dict[str, Any]]
    status: pulumi.Output[dict[str, Any] | None]

    def __init__(self, name: str, manifest: Manifest, opts: pulumi.ResourceOptions | None = None) -> None:
        api_version, kind = manifest["apiVersion"], manifest["kind"]
        secret_outputs = ["data", "stringData"] if (api_version, kind) == ("v1", "Secret") else []
        defaults = pulumi.ResourceOptions(version=_provider_version(), additional_secret_outputs=secret_outputs)
        group_version = "core/v1" if api_version == "v1" else api_version
        super().__init__(
            f"kubernetes:{group_version}:{kind}",
            name,
            {**manifest, "status": None},  # declares the output; None is not sent
            pulumi.ResourceOptions.merge(defaults, opts),
        )

    @property
    def object_name(self) -> pulumi.Output[str]:
        """`metadata.name`; a resource that uses it depends on the object."""
        return self.metadata.apply(lambda metadata: str(metadata["name"]))


class ClusterProvider(pulumi.ProviderResource):
    """The one Kubernetes provider of a stack.

    Unlike the SDK's class it does not copy $KUBECONFIG into its inputs. A path in state would be a change in every
    preview on another machine, and `pulumi destroy` would follow a path that exists on the first machine only; left
    out, the provider reads $KUBECONFIG, or ~/.kube/config, where it runs.

    `adopts`: it adopts objects that exist instead of failing; `forces`: also fields that other managers own.
    """

    def __init__(
        self,
        name: str,
        *,
        cluster_identifier: str,
        context: str | None = None,
        kubeconfig: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
        adopts: bool = False,
        forces: bool = False,
    ) -> None:
        props: dict[str, pulumi.Input[str] | None] = {
            # Without it, a new kubeconfig would replace the provider and every object that uses it.
            "clusterIdentifier": cluster_identifier,
            "context": context,
            "kubeconfig": kubeconfig,
            # A rotated token updates the Secret in place; a replacement would delete the Secret that is mounted.
            "enableSecretMutable": "true",
        }
        if adopts:
            props["upsertExistingObjects"] = "true"
        if forces:
            props["enablePatchForce"] = "true"
        self._connection = {"cluster_identifier": cluster_identifier, "context": context, "kubeconfig": kubeconfig}
        defaults = pulumi.ResourceOptions(version=_provider_version())
        super().__init__("kubernetes", name, props, pulumi.ResourceOptions.merge(defaults, opts))

    def adopting(self, name: str) -> ClusterProvider:
        """A second provider for the same cluster, which adopts objects that others create."""
        return ClusterProvider(name, adopts=True, **self._connection)  # type: ignore[arg-type]


def child(
    parent: pulumi.Resource,
    *,
    depends_on: Sequence[pulumi.Resource] = (),
    protect: bool | None = None,
    retain_on_delete: bool | None = None,
    custom_timeouts: pulumi.CustomTimeouts | None = None,
) -> pulumi.ResourceOptions:
    """Return the options of a component's child."""
    return pulumi.ResourceOptions(
        parent=parent,
        depends_on=list(depends_on),
        protect=protect,
        retain_on_delete=retain_on_delete,
        custom_timeouts=custom_timeouts,
    )


@cache
def _provider_version() -> str:
    return version("pulumi-kubernetes")
