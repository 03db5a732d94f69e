"""The serving certificate: the files given by flags, else a self-signed one kept in memory."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import re
import ssl
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_VERSIONS = {
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,  # older ones are refused; asking for them is not an error upstream either
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}

_LOOK_SECONDS = 1.0
_TLS13_SUITES = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""Suites of TLS 1.3, which cannot be chosen, as in Go."""

_SUITE = re.compile(r"TLS_(?:(ECDHE)_(RSA|ECDSA)|RSA)_WITH_(\w+)")
_CIPHERS = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "RC4_128_SHA": "RC4-SHA",
}
"""What OpenSSL calls what Go knows."""


def serving_context(
    cert_file: Path | None,
    key_file: Path | None,
    *,
    minimum: str,
    suites: Sequence[str] = (),
    client_authorities: str | None = None,
) -> ssl.SSLContext:
    """Make the TLS context of the HTTPS server; without files it lacks a certificate (`use_self_signed`).

    Args:
        cert_file, key_file: what to serve.
        minimum: oldest version, under Go's name.
        suites: allowed ones up to TLS 1.2, under IANA's names; the library's choice where none is given.
        client_authorities: who signs certificates of clients, in PEM. None asks for no certificate; with "" none is
            accepted yet.

    Raises:
        ValueError: the files cannot be read or do not fit together, or a suite is not known; says which.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[minimum]
    if chosen := [cipher for suite in suites if (cipher := _openssl_name(suite))]:
        try:
            # OpenSSL ignores names of suites that it no longer has, as long as it has one of them.
            context.set_ciphers(":".join(chosen))
        except ssl.SSLError as error:
            raise ValueError(f"--tls-cipher-suites: none of {', '.join(suites)} can be used here") from error
    if client_authorities is not None:
        # A client may still come without one, with a token.
        context.verify_mode = ssl.CERT_OPTIONAL
        if client_authorities:
            try:
                context.load_verify_locations(cadata=client_authorities)
            except ssl.SSLError as error:
                raise ValueError("who signs client certificates: there is no certificate in it") from error
    if cert_file and key_file:
        try:
            context.load_cert_chain(cert_file, key_file)
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror if isinstance(error, FileNotFoundError) else str(error)
            raise ValueError(f"serving certificate {cert_file} with key {key_file}: {reason}") from error
    return context


def follow_renewals(
    served: ssl.SSLContext,
    files: Sequence[Path],
    new_context: Callable[[], ssl.SSLContext],
    report: Callable[[str | None], None],
    clock: Callable[[], float] = time.monotonic,
    also: Callable[[], object] = lambda: None,
) -> None:
    """Let connections through `served` see the certificate that its files hold now, without a restart.

    Args:
        served: what the server was given; made from `files`.
        files: looked at when a client connects, at most once a second.
        new_context: makes a context from them. While it fails, as it may in the middle of a renewal, the former one
            stays.
        report: called once per renewal, with the reason if the files cannot be used.
        clock: monotonic seconds.
        also: returns what else a context is made from; another value is a renewal, too.
    """
    current, known, looked_at = served, (_signature(files), also()), clock()

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal current, known, looked_at
        now = clock()
        if now - looked_at >= _LOOK_SECONDS:
            looked_at = now
            if (signature := (_signature(files), also())) != known:
                known = signature
                try:
                    current = new_context()
                except (OSError, ValueError) as error:
                    report(str(error))
                else:
                    report(None)
        if current is not served:
            connection.context = current

    served.sni_callback = choose


def _signature(files: Sequence[Path]) -> tuple[tuple[int, int, int] | None, ...]:
    signature: list[tuple[int, int, int] | None] = []
    for path in files:
        try:
            status = path.stat()
        except OSError:
            signature.append(None)
        else:
            signature.append((status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(signature)


def validity(cert_file: Path) -> tuple[float, float] | None:
    """Return since when and until when the first certificate of a PEM file is valid, in seconds since 1970.

    None where it cannot be read: OpenSSL serves some that this library is too strict for.
    """
    # Here, since it takes a while and is not needed where no file is given.
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(cert_file.read_bytes())
        return certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    except (OSError, ValueError):
        return None


def use_self_signed(context: ssl.SSLContext, address: str) -> None:
    """Make a certificate for `address` and use it. Takes a tenth of a second the first time, mostly imports.

    Raises:
        OSError: there is nowhere to put it for the moment that ssl needs to read it.
    """
    SelfSigned(address).use(context)


class SelfSigned:
    """A self-signed certificate, in memory, for the contexts of one server."""

    def __init__(self, address: str) -> None:
        """Make it, in a tenth of a second."""
        self._pem = b"".join(_self_signed(address))

    def use(self, context: ssl.SSLContext) -> None:
        """Have a context serve it.

        Raises:
            OSError: there is nowhere to put it for the moment that ssl needs to read it.
        """
        # ssl loads from files only; the directory is private and gone before the first connection.
        with tempfile.TemporaryDirectory(prefix="serving-") as directory:
            pem = Path(directory) / "tls.pem"
            descriptor = os.open(pem, os.O_WRONLY | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(self._pem)
            context.load_cert_chain(pem)


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite; "" for one that is always on.

    Raises:
        ValueError: there is no such suite.
    """
    if suite in _TLS13_SUITES:
        return ""
    match = _SUITE.fullmatch(suite)
    cipher = _CIPHERS.get(match[3]) if match else None
    if match is None or cipher is None:
        raise ValueError(f"--tls-cipher-suites: Cipher suite {suite} not supported or doesn't exist")
    return f"{match[1]}-{match[2]}-{cipher}" if match[1] else cipher


def _self_signed(address: str) -> tuple[bytes, bytes]:
    # Here, since they take a while and are not needed where files are given.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "secondary-scheduler")])
    addresses = {ipaddress.ip_address("127.0.0.1")}
    # A host name is left out: clients of a self-signed certificate do not verify it.
    with contextlib.suppress(ValueError):
        addresses.add(ipaddress.ip_address(address))
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), *(x509.IPAddress(address) for address in addresses)]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
