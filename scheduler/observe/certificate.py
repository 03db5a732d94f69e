"""The serving certificate: the files given by flags, else a self-signed one kept in memory."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_VERSIONS = {
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,  # older ones are refused; asking for them is not an error upstream either
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


def serving_context(cert_file: Path | None, key_file: Path | None, *, address: str, minimum: str) -> ssl.SSLContext:
    """Make the TLS context of the HTTPS server.

    Raises:
        ValueError: the files cannot be read or do not fit together; says which.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[minimum]
    if cert_file and key_file:
        try:
            context.load_cert_chain(cert_file, key_file)
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror if isinstance(error, FileNotFoundError) else str(error)
            raise ValueError(f"serving certificate {cert_file} with key {key_file}: {reason}") from error
        return context
    certificate, key = _self_signed(address)
    # ssl loads from files only; the directory is private and gone before the first connection.
    with tempfile.TemporaryDirectory(prefix="serving-") as directory:
        pem = Path(directory) / "tls.pem"
        descriptor = os.open(pem, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate + key)
        context.load_cert_chain(pem)
    return context


def _self_signed(address: str) -> tuple[bytes, bytes]:
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
            x509.SubjectAlternativeName([x509.DNSName("localhost"), *(x509.IPAddress(each) for each in addresses)]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
