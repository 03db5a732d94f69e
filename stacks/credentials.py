"""A stack's metric credentials: values for a Secret, and paths in the scheduler's pod."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from scheduler.catalog import METRIC_CREDENTIALS_DIRECTORY, SERVICE_ACCOUNT_TOKEN, CredentialRules, Loc
from scheduler.config import Problem
from stacks.metric_settings import CredentialSettings, ExistingSecret

TOKEN_KEY = "prometheusToken"  # noqa: S105 - the name of the key
SECRET_KEYS = ("kubeconfig", TOKEN_KEY)
_AT: Loc = ("metricProvider", "credentials")
TOKEN_IN_CONFIG_MAP: Loc = (*_AT, "allowTokenInConfigMap")
_SECRET_MOUNT = METRIC_CREDENTIALS_DIRECTORY
_SERVICE_ACCOUNT_MOUNT = posixpath.dirname(SERVICE_ACCOUNT_TOKEN)


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


def find_credentials(
    credentials: CredentialSettings | None, secrets: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[MetricCredentialValues, list[Problem]]:
    """Read the credentials from the stack's encrypted keys and from files named by environment variables.

    Returns the values and the problems found; values that could not be read are missing.
    """
    if credentials is None:
        return MetricCredentialValues(), []
    rules = CredentialRules(allow_insecure=credentials.allow_insecure)
    if (secret := credentials.existing_secret) is not None:
        files = _files(_SECRET_MOUNT, secret.key, secret.ca_key)
        return MetricCredentialValues(files=files, existing_secret=secret, rules=rules), []
    if (account := credentials.service_account) is not None:
        files = _files(_SERVICE_ACCOUNT_MOUNT, "token", account.ca_key)
        if account.audience:
            files = replace(files, token=f"{_SECRET_MOUNT}/token")
        else:
            rules = replace(rules, service_account_token=files.token)
        role, audience = account.cluster_role, account.audience or ""
        return MetricCredentialValues(files=files, cluster_role=role, audience=audience, rules=rules), []
    problems: list[Problem] = []
    token, authority = "", ""
    if credentials.token is not None and credentials.token.secret_key is not None:
        token = secrets.get(TOKEN_KEY, "").strip()
        if not token:
            hint = f"set it: pulumi config set --secret {TOKEN_KEY}"
            problems.append(Problem((TOKEN_KEY,), f"missing, but metricProvider.credentials refers to it; {hint}"))
    elif credentials.token is not None:
        token = _read((*_AT, "token"), credentials.token.from_file_in_env or "", environment, problems)
    if credentials.allow_token_in_config_map:
        return MetricCredentialValues(config_map_token=token, rules=rules), problems
    if credentials.ca_file is not None:
        authority = _read((*_AT, "caFile"), credentials.ca_file.from_file_in_env, environment, problems)
    files = _files(_SECRET_MOUNT, "token", "ca.crt" if authority else None)
    return MetricCredentialValues(
        files=files, token=token, certificate_authority=authority or None, rules=rules
    ), problems


def misplaced_secrets(encrypted: Collection[str], present: Collection[str]) -> list[Problem]:
    """Return a problem for each secret in plain text, and for each encrypted value under a key that is not secret."""
    problems = [
        Problem((key,), f"is stored in plain text; encrypt it: pulumi config set --secret {key}")
        for key in SECRET_KEYS
        if key in present and key not in encrypted
    ]
    hint = f"secrets belong under {' or '.join(SECRET_KEYS)}"
    problems += [
        Problem((key,), f"holds an encrypted value, which would be stored in plain text; {hint}")
        for key in sorted(encrypted)
        if key not in SECRET_KEYS
    ]
    return problems


def unset_variable(name: str) -> str:
    """Return the message about an environment variable that is not set."""
    hint = "export it where pulumi runs"
    if name.startswith("SECONDARY_SCHEDULER_"):
        hint = 'for the local cluster: eval "$(secondary-scheduler cluster env)"'
    return f"the environment variable {name} is not set; {hint}"


def _files(mount: str, token_key: str, ca_key: str | None) -> CredentialFiles:
    return CredentialFiles(f"{mount}/{token_key}", f"{mount}/{ca_key}" if ca_key else None)


def _read(at: Loc, name: str, environment: Mapping[str, str], problems: list[Problem]) -> str:
    location = (*at, "fromFileInEnv")
    path = environment.get(name)
    if not path:
        problems.append(Problem(location, unset_variable(name)))
        return ""
    try:
        content = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        problems.append(Problem(location, f"cannot read {path} (from {name}): {reason}"))
        return ""
    if not content:
        problems.append(Problem(location, f"{path} (from {name}) is empty"))
    return content
