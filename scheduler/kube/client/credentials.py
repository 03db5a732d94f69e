"""Credentials in use: tokens and certificates from files that are rotated while we run."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from scheduler.kube.client.config import ClientConfig
from scheduler.kube.client.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHECK_SECONDS: Final = 1.0
"""Seconds between looks at a file's time stamp."""
_REREAD_SECONDS: Final = 60.0
"""Seconds after which a file is read again whatever its time stamp says."""

_RECORD: Final = 16 << 10
"""Bytes of a TLS record at most."""

_Signature = tuple[tuple[int, int, int] | None, ...]


class Credentials:
    """Authorization header and TLS context of one client. Not thread-safe: each thread needs its own."""

    def __init__(self, config: ClientConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._token = _File(config.token_file, clock) if config.token_file else None
        self._tls_files = tuple(
            path for path in (config.ca_file, config.cert_file, config.key_file) if path is not None
        )
        self._tls_signature: _Signature = ()
        self._tls_checked_at = float("-inf")
        self._tls: ResumingContext | None = None

    @property
    def config(self) -> ClientConfig:
        """The configuration these credentials come from."""
        return self._config

    @property
    def secure(self) -> bool:
        """True for a server with TLS."""
        return urlsplit(self._config.server).scheme == "https"

    def authorization(self) -> str | None:
        """Return the value of the Authorization header, or None without a token.

        The token file is read again when it changed. Raise ConfigError when it cannot be read or holds no token.
        """
        if self._token is not None:
            content = self._token.read()
            token = content.decode("utf-8", "replace").strip()
            if not token or not token.isprintable() or not token.isascii():
                raise ConfigError(f"{self._config.token_file}: holds no token")
            return f"Bearer {token}"
        return f"Bearer {self._config.token}" if self._config.token else None

    def reread(self) -> bool:
        """Have the token file read again at the next use; return False when there is no token file."""
        if self._token is not None:
            self._token.forget()
        return self._token is not None

    def ssl_context(self) -> ResumingContext:
        """Return the TLS context, rebuilt whenever a certificate file has changed.

        Raise ConfigError for files that cannot be used, unless an earlier context still works.
        """
        now = self._clock()
        if self._tls is not None and now - self._tls_checked_at < _CHECK_SECONDS:
            return self._tls
        self._tls_checked_at = now
        signature = tuple(_signature(path) for path in self._tls_files)
        if self._tls is None or signature != self._tls_signature:
            try:
                self._tls = _context(self._config)
            except ConfigError:
                # In the middle of a rotation the pair may not match yet: keep what works.
                if self._tls is None:
                    raise
            else:
                self._tls_signature = signature
        return self._tls


class _File:
    """A small file, cached while it does not change."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._content: bytes | None = None
        self._signature: tuple[int, int, int] | None = None
        self._checked_at = float("-inf")
        self._read_at = float("-inf")

    def read(self) -> bytes:
        now = self._clock()
        if self._content is not None and now - self._checked_at < _CHECK_SECONDS:
            return self._content
        self._checked_at = now
        signature = _signature(self._path)
        if self._content is None or signature != self._signature or now - self._read_at >= _REREAD_SECONDS:
            try:
                with self._path.open("rb") as file:
                    content = file.read(1 << 16)
            except OSError as error:
                if self._content is None:
                    raise ConfigError(f"{self._path}: {error.strerror or error}") from error
                return self._content
            # An empty file is a rotation half done; the old token is still the better guess.
            if content.strip() or self._content is None:
                self._content = content
            self._signature, self._read_at = signature, now
        return self._content

    def forget(self) -> None:
        self._checked_at = self._read_at = float("-inf")


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class _RecordReader(ssl.SSLObject):
    """Asks for one record at a time.

    Event loops ask for 256 KiB, get one record, and the rest is given back: one block after the other, each held open
    by the few bytes at its start, until the heap is full of holes.
    """

    def read(self, len: int = 1024, buffer: WriteableBuffer | None = None) -> bytes:  # noqa: A002 - the base's name
        return super().read(min(len, _RECORD), buffer)


class ResumingContext(ssl.SSLContext):
    """Begins connections to one server with the last session that this server gave a ticket for.

    A resumed session proves neither certificate again, so a context must not outlive its certificates.
    """

    session: ssl.SSLSession | None = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """As the base, which event loops call without a session."""
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session or self.session)

    def remember(self, connected: ssl.SSLObject) -> None:
        """Keep the session of a connection that has been answered: a ticket comes after the handshake."""
        if self.session is None or not connected.session_reused:
            session = connected.session
            self.session = session if session is not None and session.has_ticket else None


def _context(config: ClientConfig) -> ResumingContext:
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslobject_class = _RecordReader
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if config.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif config.ca_data is not None:
            context.load_verify_locations(cadata=config.ca_data.decode("ascii"))
        elif config.ca_file is not None:
            context.load_verify_locations(cadata=config.ca_file.read_text("ascii"))
        else:
            context.load_default_certs()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{config.ca_file or config.source}: cannot use the certificate authority: {error}"
        ) from error
    cert = config.cert_data if config.cert_data is not None else config.cert_file
    key = config.key_data if config.key_data is not None else config.key_file
    if cert is not None and key is not None:
        try:
            _load_pair(context, cert, key)
        except OSError as error:
            raise ConfigError(
                f"{config.cert_file or config.source}: cannot use the client certificate: {error}"
            ) from error
    return context


def _load_pair(context: ssl.SSLContext, cert: bytes | Path, key: bytes | Path) -> None:
    """The ssl module only reads files; data goes through anonymous ones that never touch a disk."""
    opened: list[int] = []
    try:
        names = []
        for pem in (cert, key):
            if isinstance(pem, bytes):
                descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
                opened.append(descriptor)
                os.write(descriptor, pem)
                names.append(f"/proc/self/fd/{descriptor}")
            else:
                names.append(str(pem))
        context.load_cert_chain(names[0], names[1])
    finally:
        for descriptor in opened:
            os.close(descriptor)
