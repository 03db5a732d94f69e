"""Addresses of metric sources, and where the credentials for them may come from and go to.

Pure: a path is judged as it is written. Links are resolved where the file is opened (`scheduler.load`).
"""

import ipaddress
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

DEFAULT_ADDRESSES = {"Prometheus": "http://prometheus-k8s:9090", "SignalFx": "https://api.signalfx.com"}
"""Where load-watcher looks when the configuration names no address."""
METRIC_CREDENTIALS_DIRECTORY = "/var/run/secrets/secondary-scheduler/metrics"
"""Where the scheduler's pod has the credentials for the metric source."""
SERVICE_ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where every pod has the files of its ServiceAccount."""
SERVICE_ACCOUNT_TOKEN = f"{SERVICE_ACCOUNT_DIRECTORY}/token"
"""The token among them, which the API server accepts."""
_PORTS = {"http": 80, "https": 443}
# No user, query, fragment, blank or backslash: programs disagree about the host of an address that has them.
_ADDRESS = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~!$&'()*+,;=:%/-]*)?",
)
_SHOWN = 200


def address_problem(address: str) -> str | None:
    """Return why an address cannot be that of a metric source; None if it can.

    An address with a user or password is refused: addresses stand in logs, metrics, Events and the Lease. The reason
    quotes the address only if no secret can be in it.
    """
    if "@" in address:
        return "must not hold a user or password: an address is shown in logs and metrics; put a token into a Secret"
    if "?" in address or "#" in address:
        return "must not hold a query or fragment: the scheduler appends its own"
    quoted = f'"{address}"' if len(address) <= _SHOWN and address.isprintable() else "it"
    if not address.startswith(("http://", "https://")):
        return f"{quoted} is not a URL: it starts with http:// or https://"
    try:
        parts = urlsplit(address)
        is_valid = bool(parts.hostname) and parts.port != 0
        if address.partition("://")[2].startswith("["):
            ipaddress.IPv6Address(parts.hostname or "")
    except ValueError:
        is_valid = False
    if not is_valid or not _ADDRESS.fullmatch(address):
        return f"{quoted} is not a URL; write http://HOST:PORT or https://HOST:PORT"
    return None


def is_loopback(address: str) -> bool:
    """Return whether an address names this machine, so that nothing crosses a network."""
    return is_loopback_host(urlsplit(address).hostname or "")


def is_loopback_host(host: str) -> bool:
    """Return whether a host's name or IP address is this machine's alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def same_address(address: str, other: str) -> bool:
    """Return whether two addresses are the same server and path; the default port may be left out."""
    return _normal(address) == _normal(other)


class Credential(NamedTuple):
    """What a configuration would send, and where to; `literal` says that the token stands in the configuration."""

    address: str
    literal: bool = False
    token_file: str | None = None
    ca_file: str | None = None
    verify_tls: bool = True


class Refusal(NamedTuple):
    """Why a credential is not sent: the field that is wrong, the reason, and what to do.

    `undecided`: only the SecondaryScheduler or the stack can tell, and the rules do not know what they say.
    """

    field: str
    message: str
    hint: str
    undecided: bool = False

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}"


@dataclass(frozen=True, slots=True)
class CredentialRules:
    """Where credentials for a metric source may come from and go to.

    They are flags of the Deployment, which the SecondaryScheduler or the stack decides. Whoever writes the ConfigMap
    chooses the address and the file, and must not obtain a token that way.

    Attributes:
        directory: files below it hold credentials for metric sources; None for the command line of a person, who may
            name any file.
        address: the only address that tokens of files are sent to; None for any.
        service_account_token: the file with the ServiceAccount's own token, if it may be sent: to `address` only, over
            verified TLS only.
        allow_insecure: send other tokens over HTTP, or to a server whose certificate is not verified, too.
    """

    directory: str | None = METRIC_CREDENTIALS_DIRECTORY
    address: str | None = None
    service_account_token: str | None = None
    allow_insecure: bool = False

    def refusal(self, credential: Credential) -> Refusal | None:
        """Return why a credential must not be sent; None if it may be, or if there is none."""
        if credential.token_file is None and not credential.literal:
            return None
        return next(self._refusals(credential), None)

    def arguments(self) -> list[str]:
        """Return the scheduler's flags for what these rules permit beyond the default."""
        flags = [
            f"--metric-credentials-address={self.address}" if self.address else "",
            f"--metric-service-account-token={self.service_account_token}" if self.service_account_token else "",
            "--allow-insecure-metric-credentials" if self.allow_insecure else "",
        ]
        return [flag for flag in flags if flag]

    def _refusals(self, credential: Credential) -> Iterator[Refusal]:
        file, own = credential.token_file, False
        if file is not None:
            own = self.service_account_token is not None and file == self.service_account_token
            yield from self._of_own_token(credential) if own else self._of_file(file)
            if self.address is not None and not same_address(self.address, credential.address):
                yield Refusal(
                    "address",
                    f"the token is for {self.address} and is not sent to {credential.address}",
                    "the address must be the one that the SecondaryScheduler (metricCredentials.address) or the stack"
                    " names",
                )
        if own or self.allow_insecure or is_loopback(credential.address):
            return
        permit = (
            "allow it explicitly with --allow-insecure-metric-credentials"
            if self.directory is None
            else (
                "allow it explicitly (allowInsecureMetricCredentials of the SecondaryScheduler, or"
                " credentials.allowInsecure of the stack)"
            )
        )
        if not credential.address.startswith("https://"):
            message = f"a token is not sent over HTTP, which anybody on the network can read ({credential.address})"
            yield Refusal("address", message, f"use https, or {permit}")
        elif not credential.verify_tls:
            message = "a token is not sent to a server whose certificate is not verified"
            yield Refusal("insecureSkipVerify", message, f"give caFile instead, or {permit}")

    def _of_file(self, file: str) -> Iterator[Refusal]:
        if self.directory is None:
            return
        if _is_below(file, SERVICE_ACCOUNT_DIRECTORY):
            yield Refusal(
                "tokenFile",
                "the ServiceAccount's own token is sent only where the SecondaryScheduler or the stack asks for it",
                "set metricCredentials.serviceAccount and .address of the SecondaryScheduler, or"
                " credentials.serviceAccount of the stack",
            )
        elif not _is_below(file, self.directory):
            yield Refusal(
                "tokenFile",
                f'"{file}" is not below {self.directory}, where the credentials for the metric source are mounted',
                "put the token into a Secret (metricCredentials)",
            )

    def _of_own_token(self, credential: Credential) -> Iterator[Refusal]:
        sent = "the ServiceAccount's own token is sent"
        if not credential.address.startswith("https://"):
            yield Refusal("address", f"{sent} over https only", "use https")
        if not credential.verify_tls:
            yield Refusal(
                "insecureSkipVerify", f"{sent} over verified TLS only", "remove insecureSkipVerify and give caFile"
            )
        directories = [posixpath.dirname(self.service_account_token or ""), self.directory or ""]
        if credential.ca_file is not None and not any(_is_below(credential.ca_file, each) for each in directories):
            yield Refusal(
                "caFile",
                f'{sent} to no server that "{credential.ca_file}" vouches for, as the ConfigMap may hold that file',
                f"name a file below {directories[0]}",
            )
        if self.address is None:
            yield Refusal(
                "tokenFile",
                f"{sent} only to an address that the SecondaryScheduler (metricCredentials.address) or the stack names",
                f"name {credential.address} there, with metricCredentials.serviceAccount",
                undecided=True,
            )


UNDECIDED_RULES = CredentialRules(service_account_token=SERVICE_ACCOUNT_TOKEN)
"""For judging a configuration without its SecondaryScheduler or stack."""


def _is_below(file: str, directory: str) -> bool:
    # Nothing is normalized: a path that would need it is refused.
    return directory != "" and posixpath.normpath(file) == file and file.startswith(f"{directory.rstrip('/')}/")


def _normal(address: str) -> tuple[str, str, int, str]:
    parts = urlsplit(address)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(scheme, 0), parts.path.rstrip("/")
