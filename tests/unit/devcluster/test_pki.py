from __future__ import annotations

import ipaddress
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from devcluster import pki
from devcluster.layout import Layout, write_credentials


def load(pair: pki.KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def test_a_client_certificate_carries_user_and_groups_and_is_signed_by_its_authority() -> None:
    authority = pki.CertificateAuthority("test")
    certificate = load(authority.client("system:node:real-0", ["system:nodes", "more"]))
    certificate.verify_directly_issued_by(load(authority.pair))
    subject = certificate.subject
    assert [a.value for a in subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)] == ["system:node:real-0"]
    assert [a.value for a in subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)] == ["system:nodes", "more"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [x509.ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_serving_certificate_is_valid_for_its_names_only() -> None:
    certificate = load(pki.CertificateAuthority("test").server("api", ["kubernetes.default.svc"], ["127.0.0.1"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["kubernetes.default.svc"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_service_account_keys_belong_together() -> None:
    pair = pki.service_account_keys()
    private = load_pem_private_key(pair.key, None)
    public = load_pem_public_key(pair.certificate)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert private.public_key().public_numbers() == public.public_numbers()


def test_two_clusters_share_no_key_and_no_token(tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        for part in ("pki", "config"):
            (tmp_path / name / part).mkdir(parents=True)
        write_credentials(Layout(tmp_path / name), name, "https://127.0.0.1:6443", ["real-0"])
        contents.append({path.name: path.read_bytes() for path in (tmp_path / name / "pki").iterdir()})
    assert contents[0].keys() == contents[1].keys()
    assert not [name for name in contents[0] if contents[0][name] == contents[1][name]]


def test_what_is_private_is_never_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("old")
    path.chmod(0o644)
    pki.write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_kubeconfig_stands_alone(tmp_path: Path) -> None:
    authority = pki.CertificateAuthority("test")
    pair = authority.client("admin", ["system:masters"])
    path = tmp_path / "kubeconfig"
    pki.write_kubeconfig(path, "local", "https://127.0.0.1:6443", authority.pair.certificate, "admin", pair)
    content = yaml.safe_load(path.read_text())
    assert content["current-context"] == content["contexts"][0]["name"]
    assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert set(content["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    assert str(tmp_path) not in path.read_text()
