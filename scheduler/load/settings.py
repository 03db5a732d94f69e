"""Settings of a load source, as the configuration gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from scheduler.catalog import Credential, CredentialRules, LoadQueries
from scheduler.framework import LoadReading


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Where and how to read the load.

    Attributes:
        address: base URL of the source.
        token: bearer token given in the configuration itself; a token file is preferred and wins.
        token_file: file with the bearer token, read again when it changes.
        ca_file: certificate authority for the source; the system's where it is None.
        verify_tls: off only where the configuration says `insecureSkipVerify: true`.
        window: averaging window as a Prometheus duration.
        refresh_seconds: pause between two reads.
        max_age_seconds: a sample older than this is stale and not used for scores.
        timeout_seconds: deadline of one query, connecting and reading included.
        queries: PromQL of each figure. The default series are those that load-watcher 0.2.4 reads (recording rules of
            kube-prometheus).
        node_label: label of the series that says which node they are of: its name, or an address with or without port.
        credential_header: header that carries the token; empty for `Authorization: Bearer`.
        host_suffix, cluster: filters of SignalFx.
        rules: where credentials may come from and go to.
    """

    address: str
    token: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    verify_tls: bool = True
    window: str = "15m"
    refresh_seconds: float = 30.0
    max_age_seconds: float = 300.0
    timeout_seconds: float = 10.0
    queries: LoadQueries = field(default_factory=LoadQueries)
    node_label: str = "instance"
    credential_header: str = ""
    host_suffix: str = ""
    cluster: str = ""
    rules: CredentialRules = field(default_factory=CredentialRules)

    @property
    def credential(self) -> Credential:
        """What would be sent, and where to."""
        file, ca_file = (str(path) if path else None for path in (self.token_file, self.ca_file))
        return Credential(self.address, bool(self.token) and file is None, file, ca_file, self.verify_tls)

    def __repr__(self) -> str:
        """Leave the token out: settings end up in logs."""
        return f"LoadSettings(address={self.address!r}, window={self.window!r})"


ObjectCount = Callable[[], int]
"""How many nodes, or pods, a source may tell about, for the cap on its answers. Called on the thread that reads it."""


class LoadError(Exception):
    """A source could not be read; the text says what, where and why, and never holds a credential."""


class LoadRefused(LoadError):
    """The source does not accept the credential."""


class LoadSource(Protocol):
    """One place to read loads from; called from the collector's thread only."""

    def describe(self) -> str:
        """Name the source in messages: type and address, no credential."""
        ...

    def read(self) -> LoadReading:
        """Fetch the loads of all instances.

        Raises:
            LoadError: the source did not answer, or not with loads.
        """
        ...

    def close(self) -> None:
        """Release connections."""
        ...
