"""A stack's metric credentials: their values, from encrypted keys and from files that the environment names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from components.settings import (
    CREDENTIALS,
    CredentialSettings,
    MetricCredentialValues,
    mounted_credentials,
    unset_variable,
)
from scheduler.catalog import Loc
from scheduler.config import Problem

TOKEN_KEY = "prometheusToken"  # noqa: S105 - the name of the key
SECRET_KEYS = ("kubeconfig", TOKEN_KEY)


def find_credentials(
    credentials: CredentialSettings | None, secrets: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[MetricCredentialValues, list[Problem]]:
    """Read the credentials from the stack's encrypted keys and from files named by environment variables.

    Returns the values and the problems found; values that could not be read are missing.
    """
    if credentials is None or credentials.token is None:
        return mounted_credentials(credentials), []
    problems: list[Problem] = []
    token, authority = "", ""
    if credentials.token.secret_key is not None:
        token = secrets.get(TOKEN_KEY, "").strip()
        if not token:
            hint = f"set it: pulumi config set --secret {TOKEN_KEY}"
            problems.append(Problem((TOKEN_KEY,), f"missing, but metricProvider.credentials refers to it; {hint}"))
    else:
        token = _read((*CREDENTIALS, "token"), credentials.token.from_file_in_env or "", environment, problems)
    if credentials.allow_token_in_config_map:
        return replace(mounted_credentials(credentials), config_map_token=token), problems
    if credentials.ca_file is not None:
        authority = _read((*CREDENTIALS, "caFile"), credentials.ca_file.from_file_in_env, environment, problems)
    values = mounted_credentials(credentials, has_authority=bool(authority))
    return replace(values, token=token, certificate_authority=authority or None), problems


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
