"""Finding the API server: files, the pod's own account, precedence, refusals, rotation."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.kube.client import ClientConfig, ConfigError, Credentials, config as config_module
from tests.support.clock import Clock

CANARY = "canary-7f3a9e"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(config_module, "SERVICE_ACCOUNT", tmp_path / "serviceaccount")


def kubeconfig(path: Path, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "here"}},
            {"name": "other", "context": {"cluster": "d", "user": "u"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://main:6443", **(cluster or {})}},
            {"name": "d", "cluster": {"server": "https://other:6443"}},
        ],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def in_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    root = tmp_path / "serviceaccount"
    root.mkdir()
    (root / "token").write_text("pod-token\n")
    (root / "ca.crt").write_text("")
    (root / "namespace").write_text("mine")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return root


def certificate(name: str) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def test_a_given_file_wins_over_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    in_pod(monkeypatch, tmp_path)
    file = kubeconfig(tmp_path / "given", user={"token": "t"})
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "env")))
    config = ClientConfig.load(file)
    assert (config.server, config.namespace, config.token, config.source) == (
        "https://main:6443",
        "here",
        "t",
        str(file),
    )


def test_the_pods_account_wins_over_the_environment_unless_a_context_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = in_pod(monkeypatch, tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "env")))
    config = ClientConfig.load()
    assert (config.server, config.namespace) == ("https://10.0.0.1:443", "mine")
    assert (config.token_file, config.ca_file) == (root / "token", root / "ca.crt")
    assert ClientConfig.load(context="other").server == "https://other:6443"


def test_a_pods_ipv6_address_is_bracketed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = in_pod(monkeypatch, tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert ClientConfig.in_cluster(root).server == "https://[fd00::1]:443"


def test_files_of_the_environment_are_merged_and_the_first_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    first.write_text(yaml.safe_dump({"users": [{"name": "u", "user": {"token": "from-first"}}]}))
    second = kubeconfig(tmp_path / "second", user={"token": "from-second"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'missing'}:{first}:{second}")
    config = ClientConfig.load()
    assert (config.server, config.token) == ("https://main:6443", "from-first")


def test_the_home_directory_comes_last(tmp_path: Path) -> None:
    kubeconfig(tmp_path / "home" / ".kube" / "config")
    assert ClientConfig.load().server == "https://main:6443"


def test_master_replaces_the_server_and_suffices_alone(tmp_path: Path) -> None:
    assert ClientConfig.load(master="https://alone:1").server == "https://alone:1"
    file = kubeconfig(tmp_path / "k", user={"token": "t"})
    config = ClientConfig.load(file, master="https://elsewhere:1")
    assert (config.server, config.token) == ("https://elsewhere:1", "t")


def test_with_nothing_configured_it_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"not in a pod, and neither .* give one with --kubeconfig"):
        ClientConfig.load()


def test_relative_paths_are_relative_to_their_file_and_data_is_decoded(tmp_path: Path) -> None:
    path = kubeconfig(
        tmp_path / "sub" / "k",
        cluster={"certificate-authority": "ca.pem", "tls-server-name": "api", "insecure-skip-tls-verify": False},
        user={
            "client-certificate": "/abs/cert.pem",
            "client-key-data": base64.b64encode(b"key").decode(),
            "tokenFile": "tok",
        },
    )
    config = ClientConfig.load(path)
    assert config.ca_file == tmp_path / "sub" / "ca.pem"
    assert config.cert_file == Path("/abs/cert.pem")
    assert config.key_data == b"key"
    assert config.token_file == tmp_path / "sub" / "tok"
    assert config.tls_server_name == "api"
    assert not config.insecure_skip_tls_verify


@pytest.mark.parametrize(
    ("user", "cluster", "reason"),
    [
        ({"exec": {"command": "aws"}}, {}, "exec is not supported"),
        ({"auth-provider": {"name": "gcp"}}, {}, "auth-provider is not supported"),
        ({"username": "a", "password": CANARY}, {}, "username is not supported"),
        ({"as": "admin"}, {}, "as is not supported"),
        ({}, {"proxy-url": "http://p"}, "proxy-url is not supported"),
        ({}, {"server": ""}, "has no server"),
        ({}, {"server": "main:6443"}, "is not a URL"),
        ({"token": CANARY}, {"server": "http://main:80"}, "refusing to send a token without TLS"),
        ({"client-certificate": "x"}, {}, "without its key"),
        ({"client-key-data": f"!{CANARY}"}, {}, "client-key-data is not valid base64"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        ClientConfig.load(kubeconfig(tmp_path / "k", user=user, cluster=cluster))
    assert str(tmp_path / "k") in str(caught.value)
    assert CANARY not in str(caught.value)


def test_a_missing_context_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no context 'typo'; there are: main, other"):
        ClientConfig.load(kubeconfig(tmp_path / "k"), "typo")


@pytest.mark.parametrize("text", [f"users: [{{name: u, token: {CANARY}", "- a\n- b\n", "", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_named_without_its_content(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        ClientConfig.load(path)
    assert str(path) in str(caught.value)
    assert CANARY not in str(caught.value)
    with pytest.raises(ConfigError, match="No such file"):
        ClientConfig.load(tmp_path / "absent")


def test_a_token_file_is_reread_within_a_second_and_survives_half_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    clock = Clock()
    credentials = Credentials(ClientConfig(server="https://x", token="unused", token_file=path), clock)
    assert credentials.authorization() == "Bearer one"
    path.write_text("three\n")
    assert credentials.authorization() == "Bearer one"
    clock.now += 1.1
    assert credentials.authorization() == "Bearer three"
    path.write_text("")
    clock.now += 1.1
    assert credentials.authorization() == "Bearer three"
    path.unlink()
    clock.now += 1.1
    assert credentials.authorization() == "Bearer three"
    path.write_text("four")
    assert credentials.reread()
    assert credentials.authorization() == "Bearer four"


@pytest.mark.parametrize("content", ["", "  \n", "two\nlines", "\x1b[31m"])
def test_a_token_file_without_a_token_is_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(ConfigError, match="holds no token"):
        Credentials(ClientConfig(server="https://x", token_file=path)).authorization()


def test_a_ca_file_is_reread_and_a_broken_one_keeps_the_last_good_one(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(certificate("one")[0])
    clock = Clock()
    credentials = Credentials(ClientConfig(server="https://x", ca_file=path), clock)
    first = credentials.ssl_context()
    assert first.verify_mode is ssl.CERT_REQUIRED
    assert first.check_hostname
    assert credentials.ssl_context() is first
    path.write_bytes(b"broken")
    clock.now += 1.1
    assert credentials.ssl_context() is first
    path.write_bytes(certificate("two")[0] + certificate("three")[0])
    clock.now += 1.1
    second = credentials.ssl_context()
    assert second is not first
    names = {dict(part[0] for part in certificate["subject"])["commonName"] for certificate in second.get_ca_certs()}  # type: ignore[misc]
    assert names == {"two", "three"}


def test_certificates_given_as_data_need_no_file(tmp_path: Path) -> None:
    cert, key = certificate("me")
    config = ClientConfig(server="https://x", ca_data=cert, cert_data=cert, key_data=key)
    assert Credentials(config).ssl_context().get_ca_certs()
    with pytest.raises(ConfigError, match="cannot use the client certificate"):
        Credentials(ClientConfig(server="https://x", cert_data=cert, key_data=certificate("other")[1])).ssl_context()
    with pytest.raises(ConfigError, match="cannot use the certificate authority"):
        Credentials(ClientConfig(server="https://x", ca_file=tmp_path / "absent")).ssl_context()


def test_verification_is_on_unless_switched_off() -> None:
    assert Credentials(ClientConfig(server="https://x")).ssl_context().verify_mode is ssl.CERT_REQUIRED
    off = Credentials(ClientConfig(server="https://x", insecure_skip_tls_verify=True)).ssl_context()
    assert off.verify_mode is ssl.CERT_NONE
