"""Credentials for the metric source: where the scheduler's pod finds them, and what it may do with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from scheduler.catalog import METRIC_CREDENTIALS_DIRECTORY, SERVICE_ACCOUNT_DIRECTORY, CredentialRules, Loc

from .metric_settings import CredentialSettings, ExistingSecret

CREDENTIALS: Loc = ("metricProvider", "credentials")
TOKEN_IN_CONFIG_MAP: Loc = (*CREDENTIALS, "allowTokenInConfigMap")
_SECRET_MOUNT = METRIC_CREDENTIALS_DIRECTORY


@dataclass(frozen=True)
class CredentialFiles:
    """Paths in the scheduler's pod of its token and certificate authority; None if it has none."""

    token: str | None = None
    certificate_authority: str | None = None


@dataclass(frozen=True, kw_only=True)
class MetricCredentialValues:
    """The credentials that the settings refer to.

    Attributes:
        files: where the scheduler's pod will find them.
        token: the token in plain text; None unless the stack manages the Secret.
        config_map_token: the token in plain text, if it goes into the scheduler's configuration instead.
        certificate_authority: PEM bundle for the same Secret.
        existing_secret: a Secret that is managed elsewhere.
        cluster_role: the ClusterRole to bind the scheduler's ServiceAccount to.
        audience: of the ServiceAccount's token, if it is not the API server's.
        rules: what the scheduler may do with them; the address follows from its configuration.
    """

    files: CredentialFiles = CredentialFiles()
    token: str | None = field(default=None, repr=False)
    config_map_token: str | None = field(default=None, repr=False)
    certificate_authority: str | None = None
    existing_secret: ExistingSecret | None = None
    cluster_role: str | None = None
    audience: str = ""
    rules: CredentialRules = field(default_factory=CredentialRules)

    @property
    def allow_insecure(self) -> bool:
        """Whether the token may be sent over HTTP."""
        return self.rules.allow_insecure


def mounted_credentials(
    credentials: CredentialSettings | None, *, has_authority: bool = False
) -> MetricCredentialValues:
    """Return where the scheduler's pod finds the credentials that the settings describe; without their values.

    Args:
        credentials: None if the source needs none.
        has_authority: whether a certificate authority is given with the token.
    """
    if credentials is None:
        return MetricCredentialValues()
    rules = CredentialRules(allow_insecure=credentials.allow_insecure)
    if (secret := credentials.existing_secret) is not None:
        files = _files(_SECRET_MOUNT, secret.key, secret.ca_key)
        return MetricCredentialValues(files=files, existing_secret=secret, rules=rules)
    if (account := credentials.service_account) is not None:
        files = _files(SERVICE_ACCOUNT_DIRECTORY, "token", account.ca_key)
        if account.audience:
            files = replace(files, token=f"{_SECRET_MOUNT}/token")
        else:
            rules = replace(rules, service_account_token=files.token)
        role, audience = account.cluster_role, account.audience or ""
        return MetricCredentialValues(files=files, cluster_role=role, audience=audience, rules=rules)
    if credentials.allow_token_in_config_map:
        return MetricCredentialValues(rules=rules)
    return MetricCredentialValues(
        files=_files(_SECRET_MOUNT, "token", "ca.crt" if has_authority else None), rules=rules
    )


def unset_variable(name: str) -> str:
    """Return the message about an environment variable that is not set."""
    hint = "export it where pulumi runs"
    if name.startswith("SECONDARY_SCHEDULER_"):
        hint = 'for the local cluster: eval "$(secondary-scheduler cluster env)"'
    return f"the environment variable {name} is not set; {hint}"


def _files(mount: str, token_key: str, ca_key: str | None) -> CredentialFiles:
    return CredentialFiles(f"{mount}/{token_key}", f"{mount}/{ca_key}" if ca_key else None)
