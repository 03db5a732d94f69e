"""What clients can agree on with the HTTPS server."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from devcluster import pki
from scheduler.observe.certificate import follow_renewals, serving_context, validity

INTERMEDIATE = (
    "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)  # fmt: skip
"""OpenShift's default profile."""


def context(*suites: str, minimum: str = "VersionTLS12") -> ssl.SSLContext:
    return serving_context(None, None, minimum=minimum, suites=suites)


def older_suites(tls: ssl.SSLContext) -> set[str]:
    return {cipher["name"] for cipher in tls.get_ciphers() if cipher["protocol"] != "TLSv1.3"}


def test_only_the_suites_that_are_named_are_offered_up_to_tls_1_2() -> None:
    assert older_suites(context("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")) == {"ECDHE-RSA-AES128-GCM-SHA256"}
    assert older_suites(context(*INTERMEDIATE)) == {
        "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
    }  # fmt: skip


def test_suites_of_tls_1_3_are_always_on() -> None:
    assert older_suites(context("TLS_AES_128_GCM_SHA256")) == older_suites(context())


def test_the_old_profile_works_without_what_the_library_has_given_up() -> None:
    tls = context("TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_RC4_128_SHA")
    assert "RC4-SHA" not in older_suites(tls)


def test_a_suite_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="Cipher suite TLS_ECDHE_RSA_WITH_ROT13 not supported or doesn't exist"):
        context("TLS_ECDHE_RSA_WITH_ROT13")


def test_versions_are_those_of_go() -> None:
    assert context(minimum="VersionTLS13").minimum_version is ssl.TLSVersion.TLSv1_3
    assert context(minimum="VersionTLS10").minimum_version is ssl.TLSVersion.TLSv1_2


class Renewed:
    """A serving certificate that changes on disk, as a client on a connection in memory sees it."""

    def __init__(self, directory: Path) -> None:
        self.authority = pki.CertificateAuthority("serving")
        self.files = directory / "tls.crt", directory / "tls.key"
        self.reports: list[str | None] = []
        self.now = 100.0
        self.renew()
        self.served = self._context()
        follow_renewals(self.served, self.files, self._context, self.reports.append, clock=lambda: self.now)

    def renew(self) -> None:
        pair = self.authority.server("scheduler", [], ["127.0.0.1"])
        self.files[0].write_bytes(pair.certificate)
        self.files[1].write_bytes(pair.key)

    def _context(self) -> ssl.SSLContext:
        return serving_context(*self.files, minimum="VersionTLS12")

    def seen(self) -> bytes:
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        sent, received = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trusting.wrap_bio(received, sent)
        server = self.served.wrap_bio(sent, received, server_side=True)
        for _ in range(4):
            for side in (client, server):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        return client.getpeercert(binary_form=True) or b""


def test_a_renewed_certificate_is_seen_by_the_next_client(tmp_path: Path) -> None:
    renewed = Renewed(tmp_path)
    first = renewed.seen()
    renewed.now += 2
    assert renewed.seen() == first
    renewed.renew()
    renewed.now += 2
    assert renewed.seen() != first
    assert renewed.reports == [None]


def test_half_a_renewal_keeps_the_former_certificate_and_is_reported_once(tmp_path: Path) -> None:
    renewed = Renewed(tmp_path)
    first = renewed.seen()
    renewed.files[1].write_text("half a renewal")
    for _ in range(3):
        renewed.now += 2
        assert renewed.seen() == first
    assert len(renewed.reports) == 1
    assert "tls.crt" in str(renewed.reports[0])
    renewed.renew()
    renewed.now += 2
    assert renewed.seen() != first
    assert renewed.reports[1:] == [None]


def test_the_validity_of_a_certificate_is_that_of_the_first_one_in_its_file(tmp_path: Path) -> None:
    authority = pki.CertificateAuthority("serving")
    pair = authority.server("scheduler", [], ["127.0.0.1"])
    file = tmp_path / "tls.crt"
    file.write_bytes(pair.certificate + authority.pair.certificate)
    period = validity(file)
    assert period is not None
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert period == (certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())
    file.write_text("half a renewal")
    assert validity(file) is None
    assert validity(tmp_path / "absent.crt") is None
