"""How an installation's scheduler may read the metric source."""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi

from scheduler.catalog import CredentialRules


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
