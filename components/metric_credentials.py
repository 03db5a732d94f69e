"""The scheduler's credentials for the metric source."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as k8s

from scheduler.catalog import CredentialRules

from ._inputs import joined
from .kube_object import child, cluster_role_binding, name_of
from .settings import MetricCredentialValues

TOKEN_KEY = "token"  # noqa: S105 - the key under which the token stands
CA_KEY = "ca.crt"


@dataclass(frozen=True)
class SecretKeyReference:
    """A Secret in the scheduler's namespace and the key of the token in it."""

    secret_name: pulumi.Input[str]
    key: pulumi.Input[str]


@dataclass(frozen=True)
class MetricCredentialsArgs:
    """At most one of token, existing_secret and cluster_role; none if the source needs no credentials.

    Attributes:
        namespace: where the scheduler runs.
        service_account: the scheduler's ServiceAccount, which the operator creates.
        secret_name: name of the Secret that holds the token; it stays when the token is rotated, so that nothing
            restarts.
        token: bearer token for a Secret of this stack.
        certificate_authority: PEM bundle for the same Secret, with which the source's certificate is verified.
        existing_secret: a Secret that is managed elsewhere.
        cluster_role: ClusterRole to bind the scheduler's ServiceAccount to; its projected token is the credential.
        binding_prefix: of that binding's name, which has no namespace.
        rebalancer: ServiceAccount of a rebalancer of the operator's, which reads the same source; None for none.
    """

    namespace: pulumi.Input[str]
    service_account: pulumi.Input[str]
    secret_name: pulumi.Input[str]
    token: pulumi.Input[str] | None = field(default=None, repr=False)
    certificate_authority: pulumi.Input[str] | None = None
    existing_secret: SecretKeyReference | None = None
    cluster_role: pulumi.Input[str] | None = None
    binding_prefix: pulumi.Input[str] = ""
    rebalancer: str | None = None


class MetricCredentials(pulumi.ComponentResource):
    """A new Secret, a reference to an existing one, or a role for the scheduler's own ServiceAccount.

    Attributes:
        reference: the Secret to name in the SecondaryScheduler; None if no Secret is involved.
    """

    reference: SecretKeyReference | None

    def __init__(self, name: str, args: MetricCredentialsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("secondary-scheduler:components:MetricCredentials", name, None, opts)
        self.reference = args.existing_secret
        if args.token is not None:
            self.reference = SecretKeyReference(name_of(_secret(self, name, args, args.token)), TOKEN_KEY)
        if args.cluster_role is not None:
            _binding(self, f"{name}-binding", args, args.service_account, args.cluster_role, "-")
            if args.rebalancer is not None:
                # The name is not that of the binding that a program makes for a rebalancer of its own.
                _binding(self, f"{name}-binding-rebalancer", args, args.rebalancer, args.cluster_role, ":")
        self.register_outputs({"secretName": self.reference.secret_name if self.reference else None})


def _secret(
    component: pulumi.Resource, prefix: str, args: MetricCredentialsArgs, token: pulumi.Input[str]
) -> k8s.core.v1.Secret:
    content: dict[str, pulumi.Input[str]] = {TOKEN_KEY: pulumi.Output.secret(token)}
    if args.certificate_authority is not None:
        # Public, but a Secret that is encrypted as a whole is easier to reason about than a half encrypted one.
        content[CA_KEY] = pulumi.Output.secret(args.certificate_authority)
    return k8s.core.v1.Secret(
        f"{prefix}-secret",
        metadata={"name": args.secret_name, "namespace": args.namespace},
        type="Opaque",
        string_data=content,
        opts=child(component),
    )


def _binding(
    component: pulumi.Resource,
    name: str,
    args: MetricCredentialsArgs,
    account: pulumi.Input[str],
    cluster_role: pulumi.Input[str],
    separator: str,
) -> None:
    metadata = {"name": joined(args.binding_prefix, account, separator, cluster_role)}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": args.namespace}]
    cluster_role_binding(name, metadata, cluster_role, subjects, child(component))


@dataclass(frozen=True)
class MetricAccess:
    """How the scheduler may read the metric source; at most one of token, existing_secret and cluster_role.

    Beside `settings` of an installation only token and certificate_authority: the others follow from the settings'
    `metricProvider.credentials`.

    Attributes:
        token, certificate_authority: for a Secret of the installation: bearer token, and PEM bundle for the source.
        existing_secret, existing_key: a Secret in the namespace that is managed elsewhere, and its key with the token.
        cluster_role: ClusterRole to bind the scheduler's ServiceAccount to, whose own token is sent.
        audience: of that token, if it is not the API server's.
        rules: what the scheduler may do with them; the address follows from the configuration.
        in_configuration: the configuration itself holds a token, which whoever may read ConfigMaps can read.
    """

    token: pulumi.Input[str] | None = field(default=None, repr=False)
    certificate_authority: pulumi.Input[str] | None = None
    existing_secret: str | None = None
    existing_key: pulumi.Input[str] = "token"
    cluster_role: pulumi.Input[str] | None = None
    audience: str = ""
    rules: CredentialRules = field(default_factory=CredentialRules)
    in_configuration: bool = False

    @classmethod
    def of(
        cls,
        credentials: MetricCredentialValues,
        token: pulumi.Input[str] | None,
        certificate_authority: pulumi.Input[str] | None,
        *,
        in_configuration: bool,
    ) -> MetricAccess:
        """Return what settings describe; token and authority are for a Secret, unless the configuration holds them."""
        secret = credentials.existing_secret
        return cls(
            None if in_configuration else token,
            None if in_configuration else certificate_authority,
            existing_secret=secret.name if secret else None,
            existing_key=secret.key if secret else "token",
            cluster_role=credentials.cluster_role,
            audience=credentials.audience,
            rules=credentials.rules,
            in_configuration=in_configuration,
        )
