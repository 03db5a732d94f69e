"""How the scheduler proves itself to the metric source: a Secret of this stack, or the pod's own ServiceAccount."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components._kube_object import KubeObject, child

TOKEN_KEY = "token"  # noqa: S105 - the key under which the token stands
CA_KEY = "ca.crt"


@dataclass(frozen=True)
class MetricCredentialsArgs:
    """Attributes:
    namespace: where the scheduler runs.
    secret_name: name of the Secret; it stays when the token is rotated, so that nothing restarts.
    token: bearer token, a secret Output.
    certificate_authority: PEM bundle with which the source's certificate is verified; the system's if None.
    """

    namespace: pulumi.Input[str]
    secret_name: str
    token: pulumi.Output[str]
    certificate_authority: pulumi.Input[str] | None = None


class MetricCredentials(pulumi.ComponentResource):
    """The Secret that the SecondaryScheduler refers to."""

    secret_name: pulumi.Output[str]

    def __init__(self, name: str, args: MetricCredentialsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:MetricCredentials", name, None, opts)
        content: dict[str, pulumi.Output[str]] = {TOKEN_KEY: pulumi.Output.secret(args.token)}
        if args.certificate_authority is not None:
            # Public, but encrypted like its neighbour: the state then holds no half-readable Secret.
            content[CA_KEY] = pulumi.Output.secret(args.certificate_authority)
        secret = KubeObject(
            f"{name}-secret",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": args.secret_name, "namespace": args.namespace},
                "type": "Opaque",
                "stringData": content,
            },
            child(self),
        )
        self.secret_name = secret.object_name
        self.register_outputs({"secretName": self.secret_name})


@dataclass(frozen=True)
class MetricAccessArgs:
    """Attributes:
    namespace: where the scheduler runs.
    service_account: the scheduler's ServiceAccount, which the operator makes.
    cluster_role: the ClusterRole that the metric source asks for, on OpenShift `cluster-monitoring-view`.
    """

    namespace: pulumi.Input[str]
    service_account: str
    cluster_role: str


class MetricAccess(pulumi.ComponentResource):
    """Lets the scheduler's own ServiceAccount read the metric source; no token is made, stored or rotated by hand."""

    binding_name: pulumi.Output[str]

    def __init__(self, name: str, args: MetricAccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:MetricAccess", name, None, opts)
        binding = KubeObject(
            f"{name}-binding",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{args.service_account}-{args.cluster_role}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": args.cluster_role},
                "subjects": [{"kind": "ServiceAccount", "name": args.service_account, "namespace": args.namespace}],
            },
            child(self),
        )
        self.binding_name = binding.object_name
        self.register_outputs({"bindingName": self.binding_name})
