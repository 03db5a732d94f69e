"""What each check shows: certificates, labels, nodes, ages; what depends on a failed check is skipped."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest

from devcluster import pki
from scheduler.catalog import CredentialRules
from scheduler.framework import LoadReading, NodeLoad
from scheduler.load import AddressedNode, LoadSettings
from secondary_scheduler.cli.preflight.checks import CheckStatus, Examination, check_tls
from tests.unit.scheduler.load.fakes import service


def served(directory: Path, pair: pki.KeyPair) -> ssl.SSLContext:
    files = directory / "crt", directory / "key"
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    return context


@pytest.mark.parametrize(
    ("days_ago", "status", "advice"),
    [
        (0, CheckStatus.OK, ""),
        (360, CheckStatus.WARNING, "renew it within"),
        (366, CheckStatus.FAILED, "renew the certificate"),
    ],
)
def test_a_certificate_that_expires_soon_is_a_warning_and_an_expired_one_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days_ago: int, status: CheckStatus, advice: str
) -> None:
    authority = pki.CertificateAuthority("ca")
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days_ago)
    with monkeypatch.context() as patch:
        patch.setattr(pki, "_now", lambda: then)
        pair = authority.server("prometheus", [], ["127.0.0.1"])
    ca = tmp_path / "ca"
    ca.write_bytes(authority.pair.certificate)
    with service(served(tmp_path, pair)) as fake:
        check = check_tls(LoadSettings(address=fake.url, ca_file=ca, timeout_seconds=5))
    assert (check.status, advice in check.advice) == (status, True)


def test_a_token_that_would_be_sent_unverified_or_unencrypted_is_a_failure() -> None:
    plain = LoadSettings(address="http://p:9090")
    assert check_tls(plain).status is CheckStatus.OK
    assert check_tls(LoadSettings(address="http://p:9090", token="t")).status is CheckStatus.FAILED
    assert check_tls(LoadSettings(address="https://p:9090", token="t", verify_tls=False)).status is CheckStatus.FAILED
    allowed = LoadSettings(address="http://p:9090", token="t", rules=CredentialRules(allow_insecure=True))
    assert check_tls(allowed).status is CheckStatus.WARNING
    assert check_tls(LoadSettings(address="https://p:9090", verify_tls=False)).status is CheckStatus.WARNING


class OneReading:
    """A source that was read already."""

    def __init__(self, reading: LoadReading) -> None:
        self.reading = reading

    def describe(self) -> str:
        return "source"

    def read(self) -> LoadReading:
        return self.reading

    def close(self) -> None:
        pass


def test_other_sources_are_checked_by_their_answers() -> None:
    nodes = [AddressedNode(name, (f"10.0.0.{index}",), (1000, 1)) for index, name in enumerate(("n1", "n2", "n3"))]
    loads = {"n1": NodeLoad(cpu_average=1), "10.0.0.1": NodeLoad(cpu_average=1), "x": NodeLoad()}
    source = OneReading(LoadReading(loads, 1, {"watcher": 2}))
    names = frozenset(node.name for node in nodes)
    checks = {
        check.name: check for check in Examination(LoadSettings(address=""), source, nodes, names, frozenset()).run()
    }
    assert checks["labels"].finding == "1 by name, 1 by address, 1 of no node (x)"
    assert (checks["nodes"].status, "n3" in checks["nodes"].finding) == (CheckStatus.FAILED, True)
    assert checks["ages"].status is checks["values"].status is checks["labels"].status is CheckStatus.WARNING


def test_a_source_without_loads_fails_with_advice_and_later_checks_are_skipped() -> None:
    source = OneReading(LoadReading({}, 1))
    checks = list(Examination(LoadSettings(address=""), source, [], frozenset(), frozenset()).run())
    assert (checks[0].name, checks[0].status, bool(checks[0].advice)) == ("answers", CheckStatus.FAILED, True)
    assert [check.name for check in checks[1:]] == ["labels", "nodes", "ages", "values"]
    assert {check.status for check in checks[1:]} == {CheckStatus.SKIPPED}


@pytest.mark.parametrize(
    ("ages", "status", "finding"),
    [
        ((0, 300), CheckStatus.OK, "newest 0 s, oldest 300 s; allowed 300 s"),
        ((0, 301), CheckStatus.FAILED, "newest 0 s, oldest 301 s; allowed 300 s; too old: n1"),
        ((-10, 0), CheckStatus.WARNING, "newest -10 s, oldest 0 s; allowed 300 s"),
    ],
    ids=["all fresh", "one stale", "the source's clock is ahead"],
)
def test_the_age_of_each_nodes_load_is_checked(ages: tuple[float, ...], status: CheckStatus, finding: str) -> None:
    now = 1_700_000_000.0
    loads = {f"n{index}": NodeLoad(cpu_average=1, measured_at=now - age) for index, age in enumerate(ages)}
    nodes = [AddressedNode(name, (), (1000, 1)) for name in loads]
    source = OneReading(LoadReading(loads, now))
    settings = LoadSettings(address="", max_age_seconds=300)
    examination = Examination(settings, source, nodes, frozenset(loads), frozenset(), clock=lambda: now)
    checks = {check.name: check for check in examination.run()}
    assert (checks["ages"].status, checks["ages"].finding) == (status, finding)
