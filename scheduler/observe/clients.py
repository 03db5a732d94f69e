"""Clients that are known by a certificate: who signs such certificates, and whom one names.

As upstream (k8s.io/apiserver authentication/request/x509), the common name is the user and the organizations are the
groups. The handshake verifies the certificate: where Go answers 401 to one that nobody known has signed, OpenSSL ends
the connection.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import structlog

_CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_REREAD_SECONDS: Final = 60.0
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
EVERYBODY: Final = "system:authenticated"
MASTERS: Final = "system:masters"
"""The group that may do anything without being asked for, as upstream."""
log = structlog.get_logger(component="serving")


@dataclass(frozen=True, slots=True)
class CertifiedUser:
    """Whom a verified certificate names, in the words of a SubjectAccessReview."""

    name: str
    groups: tuple[str, ...]
    digest: bytes = field(repr=False)

    @property
    def extra(self) -> dict[str, list[str]]:
        """What else a review is told."""
        return {_CREDENTIAL: [f"X509SHA256={self.digest.hex()}"]}


def user_of(connection: ssl.SSLObject | None, now: float) -> CertifiedUser | None:
    """Return whom the certificate of a connection names; None without one that is valid at `now` (Unix seconds)."""
    certificate = connection.getpeercert() if connection is not None else None
    encoded = connection.getpeercert(binary_form=True) if connection is not None and certificate else None
    if not certificate or not encoded:
        return None
    names: dict[str, list[str]] = {}
    subject: tuple[tuple[tuple[str, str], ...], ...] = certificate.get("subject", ())  # type: ignore[assignment]  # as Python documents it
    for attributes in subject:
        for kind, value in attributes:
            names.setdefault(kind, []).append(value)
    expires = str(certificate.get("notAfter", ""))
    if not names.get("commonName") or not expires or ssl.cert_time_to_seconds(expires) < now:
        return None
    groups = (*names.get("organizationName", ()), EVERYBODY)
    return CertifiedUser(names["commonName"][-1], groups, hashlib.sha256(encoded).digest())


class ConfigMapReader(Protocol):
    """The part of the API client that a look-up needs."""

    async def get(self, path: str) -> bytes:
        """GET an object."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class ClientAuthorities:
    """The certificates of those who sign client certificates, in PEM: of a file, or as the cluster publishes them."""

    def __init__(
        self,
        file: Path | None = None,
        make_reader: Callable[[], ConfigMapReader] | None = None,
        *,
        tolerant: bool = True,
    ) -> None:
        """Configure.

        Args:
            file: has them (`--client-ca-file`); then nothing is looked up.
            make_reader: reads the ConfigMap kube-system/extension-apiserver-authentication.
            tolerant: whether the server goes on without them where that cannot be read.
        """
        self.file = file
        self._make_reader = make_reader if file is None else None
        self._tolerant = tolerant
        self.looked_up = ""
        """What the ConfigMap says."""

    @property
    def asked_for(self) -> bool:
        """Whether clients are asked for a certificate at all."""
        return self.file is not None or self._make_reader is not None

    def pem(self) -> str:
        """Return them as they are now; "" while none is known.

        Raises:
            ValueError: the file cannot be read.
        """
        if self.file is None:
            return self.looked_up
        try:
            return self.file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not in PEM"
            raise ValueError(f"--client-ca-file {self.file}: {reason}") from error

    async def follow(self, seconds: float = _REREAD_SECONDS) -> None:
        """Look them up, again and again; returns at once where nothing is to be looked up.

        Raises:
            Exception: the first look-up failed, and that is not tolerated.
        """
        if self._make_reader is None:
            return
        reader = self._make_reader()
        problem: str | None = None
        first = True
        try:
            while True:
                try:
                    data = json.loads(await reader.get(_CONFIG_MAP)).get("data") or {}
                    self.looked_up, latest = str(data.get("client-ca-file", "")), None
                except Exception as error:
                    if first and not self._tolerant:
                        raise
                    latest = str(error)[:200]
                if latest is not None and problem is None:
                    log.warning("who signs client certificates cannot be read", reason=latest)
                problem, first = latest, False
                await asyncio.sleep(seconds)
        finally:
            await reader.close()
