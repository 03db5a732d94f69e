"""The memory that the TLS side of the client allocates."""

import ssl
import tracemalloc
from pathlib import Path

import pytest

from devcluster.pki import CertificateAuthority
from scheduler.kube.client import ClientConfig
from scheduler.kube.client.credentials import Credentials

ASKED = 256 << 10
"""Bytes that asyncio and uvloop ask for at once."""


@pytest.fixture
def ends(tmp_path: Path) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Client and server of a connection without sockets, after the handshake."""
    authority = CertificateAuthority("test")
    pair = authority.server("server", ["server"], [])
    for name, content in (("cert", pair.certificate), ("key", pair.key)):
        (tmp_path / name).write_bytes(content)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    config = ClientConfig(server="https://server", ca_data=authority.pair.certificate)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = Credentials(config).ssl_context().wrap_bio(down, up, server_hostname="server")
    server = serving.wrap_bio(up, down, server_side=True)
    for _ in range(3):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client, server


def test_a_short_answer_does_not_pass_through_a_large_block(ends: tuple[ssl.SSLObject, ssl.SSLObject]) -> None:
    client, server = ends
    server.write(b"short")
    tracemalloc.start()
    try:
        assert client.read(ASKED) == b"short"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < ASKED / 8


def test_a_long_answer_arrives_whole(ends: tuple[ssl.SSLObject, ssl.SSLObject]) -> None:
    client, server = ends
    content = bytes(range(256)) * 400
    server.write(content)
    received = b""
    while len(received) < len(content):
        received += client.read(ASKED)
    assert received == content
