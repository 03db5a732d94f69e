"""Certificates, keys and kubeconfigs, generated for each cluster.

All keys are ECDSA P-256: as strong as RSA 3072, and generated in a millisecond.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY = datetime.timedelta(days=365)
# Certificates are valid from a little earlier, for machines in one cluster whose clocks differ.
_BACKDATE = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


def write_private(path: Path, content: bytes) -> Path:
    """Write a new file, and its directory, that only its owner can read, from the first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return path


class CertificateAuthority:
    """A self-signed authority. Its key exists in memory only, unless the caller writes `pair`."""

    def __init__(self, common_name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        now = _now()
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATE)
            .not_valid_after(now + _VALIDITY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(ca=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pair(self) -> KeyPair:
        """The authority's own certificate and key."""
        return KeyPair(_certificate_pem(self._certificate), _key_pem(self._key))

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A client certificate: Kubernetes reads the user from the common name, the groups from the organizations."""
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        names.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(names), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def server(self, common_name: str, dns_names: Sequence[str], addresses: Sequence[str]) -> KeyPair:
        """A serving certificate for the DNS names and IP addresses."""
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        return self._issue(name, ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def _issue(self, subject: x509.Name, usage: x509.ObjectIdentifier, names: Sequence[x509.GeneralName]) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        now = _now()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATE)
            .not_valid_after(now + _VALIDITY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return KeyPair(_certificate_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key))


def service_account_keys() -> KeyPair:
    """The key that signs ServiceAccount tokens; `certificate` holds the public key that checks them."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM,
        serialization.PublicFormat.SubjectPublicKeyInfo,
    )
    return KeyPair(public, _key_pem(key))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # SEC 1 form ("EC PRIVATE KEY"): the only one that client-go's ServiceAccount key reader takes for ECDSA.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _kubeconfig(cluster: str, server: str, authority: bytes, user: str, pair: KeyPair) -> dict[str, Any]:
    """A kubeconfig with one context. It contains the certificates, so that it can be copied elsewhere."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": _base64(authority)}}
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _base64(pair.certificate),
                    "client-key-data": _base64(pair.key),
                },
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
        "preferences": {},
    }


def write_kubeconfig(path: Path, cluster: str, server: str, authority: bytes, user: str, pair: KeyPair) -> Path:
    """Write a kubeconfig that only its owner can read, and return the path.

    Its one context is called `cluster`; `server` is the API server's URL, `authority` the CA's certificate as PEM, and
    `pair` the certificate of `user`.
    """
    text = yaml.safe_dump(_kubeconfig(cluster, server, authority, user, pair), sort_keys=False)
    return write_private(path, text.encode())


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
