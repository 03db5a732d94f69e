"""What the credentials of a connection come to: the header, and the certificate that a server is shown."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from devcluster.pki import CertificateAuthority
from scheduler.kube.client import ClientConfig, ConfigError, Credentials

AUTHORITY = CertificateAuthority("ours")
SERVING = AUTHORITY.server("server", [], ["127.0.0.1"])


@pytest.mark.parametrize("content", ["", "\n", "two\nlines", "caf\u00e9", "\x00"])
def test_a_file_that_holds_no_token_is_an_error_and_no_anonymous_request(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(ConfigError, match=f"^{file}: holds no token$"):
        Credentials(ClientConfig(server="https://127.0.0.1:1", token_file=file)).authorization()


def test_the_header_is_the_token_of_the_file_else_that_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("canary\n")
    config = ClientConfig(server="https://127.0.0.1:1", token_file=file, token="other")
    assert Credentials(config).authorization() == "Bearer canary"
    assert Credentials(ClientConfig(server="https://127.0.0.1:1", token="other")).authorization() == "Bearer other"
    assert Credentials(ClientConfig(server="https://127.0.0.1:1")).authorization() is None


def shown_certificate(config: ClientConfig, directory: Path) -> str:
    """The user whose certificate a server sees; in memory, without a socket."""
    (directory / "serving").write_bytes(SERVING.certificate + SERVING.key)
    (directory / "ca").write_bytes(AUTHORITY.pair.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "serving")
    context.load_verify_locations(directory / "ca")
    context.verify_mode = ssl.CERT_REQUIRED
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = Credentials(config).ssl_context().wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    certificate = server.getpeercert()
    assert certificate is not None
    return str(dict(entry[0] for entry in certificate["subject"])["commonName"])  # type: ignore[misc, index]


def test_a_certificate_may_stand_in_files_or_in_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = AUTHORITY.client("jane")
    certificate, key = tmp_path / "client", tmp_path / "key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    server, authority = "https://127.0.0.1:1", AUTHORITY.pair.certificate
    in_files = ClientConfig(server=server, ca_data=authority, cert_file=certificate, key_file=key)
    assert shown_certificate(in_files, tmp_path) == "jane"
    opened, create, flags = len(os.listdir("/proc/self/fd")), os.memfd_create, []

    def noted(name: str, bits: int = 0) -> int:
        flags.append(bits)
        return create(name, bits)

    monkeypatch.setattr(os, "memfd_create", noted)
    in_text = ClientConfig(server=server, ca_data=authority, cert_data=pair.certificate, key_data=pair.key)
    assert shown_certificate(in_text, tmp_path) == "jane"
    # No program that is started meanwhile has the key, and nothing stays open.
    assert flags == [os.MFD_CLOEXEC, os.MFD_CLOEXEC]
    assert len(os.listdir("/proc/self/fd")) == opened
