"""Preflight's parts that need no cluster: OpenShift's objects, advice about series, certificates, stack files."""

from __future__ import annotations

import base64
import datetime
import json
import ssl
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from devcluster import pki
from scheduler.framework import LoadReading, NodeLoad
from scheduler.kube.client import ClientConfig
from scheduler.kube.client.sync import SyncConnection
from scheduler.load import KnownNode, LoadSettings, PrometheusSource
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.preflight import openshift, series
from secondary_scheduler.cli.preflight.checks import CheckStatus, Examination, check_tls
from secondary_scheduler.cli.preflight.write import trusts_services_only, write_address
from tests.unit.scheduler.load.fakes import FakeService, send, service

ROUTES = "/apis/route.openshift.io/v1/namespaces/openshift-monitoring/routes"


class FakeApi(FakeService):
    """An API server with these objects by path; a number instead of one is the status that it answers with."""

    def __init__(self, objects: dict[str, Any]) -> None:
        super().__init__()

        def answer(handler: BaseHTTPRequestHandler) -> None:
            stored = objects.get(urlsplit(handler.path).path, 404)
            status = stored if isinstance(stored, int) else 200
            body = {"kind": "Status", "status": "Failure", "code": status} if isinstance(stored, int) else stored
            send(handler, json.dumps(body).encode(), status)

        self.answer = answer


def connection(objects: dict[str, Any]) -> SyncConnection:
    return SyncConnection(ClientConfig(server=FakeApi(objects).url), timeout=5)


def route(host: str, *, admitted: str = "True", tls: bool = True) -> dict[str, Any]:
    conditions = [{"type": "Admitted", "status": admitted}]
    spec = {"host": host, "tls": {"termination": "reencrypt"}} if tls else {"host": host}
    return {"spec": spec, "status": {"ingress": [{"host": host, "conditions": conditions}]}}


def test_an_api_server_without_routes_is_not_openshift() -> None:
    assert not openshift.is_openshift(connection({}))
    assert openshift.is_openshift(connection({"/apis/route.openshift.io/v1": {}}))


@pytest.mark.parametrize(
    ("objects", "address"),
    [
        ({"thanos-querier": route("thanos.apps"), "prometheus-k8s": route("prom.apps")}, "https://thanos.apps"),
        ({"prometheus-k8s": route("prom.apps")}, "https://prom.apps"),
        (
            {"thanos-querier": route("thanos.apps", admitted="False"), "prometheus-k8s": route("prom.apps")},
            "https://prom.apps",
        ),
        ({"thanos-querier": route("thanos.apps", tls=False)}, "http://thanos.apps"),
    ],
)
def test_the_first_admitted_route_to_the_monitoring_is_taken(objects: dict[str, Any], address: str) -> None:
    api = connection({f"{ROUTES}/{name}": content for name, content in objects.items()})
    assert openshift.find_route(api).address == address


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ({}, "no route thanos-querier or prometheus-k8s in openshift-monitoring"),
        ({f"{ROUTES}/thanos-querier": 403}, "no right to read routes"),
    ],
)
def test_without_a_route_the_error_says_what_to_do(objects: dict[str, Any], reason: str) -> None:
    with pytest.raises(openshift.OpenShiftError, match=reason) as refused:
        openshift.find_route(connection(objects))
    assert "--address" in str(refused.value)


def test_the_ca_of_the_ingress_is_optional() -> None:
    path = "/api/v1/namespaces/openshift-config-managed/configmaps/default-ingress-cert"
    pem = pki.CertificateAuthority("ingress").pair.certificate.decode()
    assert openshift.ingress_authority(connection({path: {"data": {"ca-bundle.crt": pem}}})) == pem
    assert openshift.ingress_authority(connection({path: 403})) is None
    assert openshift.ingress_authority(connection({path: {"data": {"ca-bundle.crt": "nothing"}}})) is None


def test_an_error_about_a_secret_does_not_show_its_content() -> None:
    path = "/api/v1/namespaces/openshift-secondary-scheduler-operator/secrets/metrics"
    data = {"token": base64.b64encode(b"canary").decode()}
    assert openshift.secret_values(connection({path: {"data": data}}), "metrics") == {"token": "canary"}
    with pytest.raises(openshift.OpenShiftError, match=r"Secret .*/metrics"):
        openshift.secret_values(connection({}), "metrics")
    with pytest.raises(openshift.OpenShiftError, match="not text"):
        openshift.secret_values(connection({path: {"data": {"token": "/w=="}}}), "metrics")


def prometheus(fake: FakeService, names: dict[str, list[dict[str, str]]]) -> PrometheusSource:
    """A Prometheus with these series (labels by name); it answers queries that hold a name."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        query = parse_qs(urlsplit(handler.path).query)["query"][0]
        if query.startswith("count by (__name__)"):
            samples = [{"__name__": name} for name in names]
        else:
            samples = [labels for name, label_sets in names.items() if name in query for labels in label_sets]
        result = [{"metric": labels, "value": [0, "0.5"]} for labels in samples]
        send(handler, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode())

    fake.answer = answer
    return PrometheusSource(LoadSettings(address=fake.url))


@pytest.mark.parametrize(
    ("name", "figure", "query"),
    [
        (
            "instance:node_cpu_utilisation:rate5m",
            "cpu_average",
            "load.queries.cpuAverage: avg_over_time(instance:node_cpu_utilisation:rate5m[$window])",
        ),
        (
            "node_cpu_seconds_total",
            "cpu_stddev",
            'load.queries.cpuStddev: stddev_over_time((1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}'
            "[5m])))[$window:30s])",
        ),
        (
            "node_memory_MemAvailable_bytes",
            "memory_average",
            "load.queries.memoryAverage: avg_over_time((1 - node_memory_MemAvailable_bytes / "
            "node_memory_MemTotal_bytes)[$window:30s])",
        ),
        ("up", "cpu_average", "is node-exporter installed"),
    ],
)
def test_the_advice_for_missing_series_is_a_query_for_existing_ones(name: str, figure: str, query: str) -> None:
    with service() as fake:
        assert query in series.advice(prometheus(fake, {name: []}), figure)


def test_the_label_with_the_nodes_names_may_be_on_other_series() -> None:
    own = [{"instance": "10.0.0.1:9100", "job": "x"}]
    with service() as fake:
        source = prometheus(fake, {"instance:node_cpu:ratio": own, "kube_node_info": [{"node": "n1", "instance": "i"}]})
        assert series.label_with(source, {"n1"}) == "node"
        assert series.label_with(prometheus(fake, {"instance:node_cpu:ratio": own}), {"n1"}) is None


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


def test_a_token_sent_unverified_or_unencrypted_is_a_warning() -> None:
    plain = LoadSettings(address="http://p:9090")
    assert check_tls(plain).status is CheckStatus.OK
    assert check_tls(LoadSettings(address="http://p:9090", token="t")).status is CheckStatus.WARNING
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
    nodes = [KnownNode(name, (f"10.0.0.{index}",), (1000, 1)) for index, name in enumerate(("n1", "n2", "n3"))]
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


STACK = """# A comment at the top.
config:
  # Of the cluster.
  secondary-scheduler:cluster:
    clusterIdentifier: "quoted"   # beside it
  secondary-scheduler:metricProvider:
    type: Prometheus
    address: https://old.example   # where it was
    credentials:
      token: {secretKey: prometheusToken}
"""


def test_writing_an_address_changes_nothing_else_in_a_stack_file(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(STACK)
    file.chmod(0o640)
    assert write_address(file, "https://new.example")
    expected = STACK.replace("https://old.example", "https://new.example")
    # The comment keeps its column as far as the longer value lets it.
    assert file.read_text().replace(" ", "") == expected.replace(" ", "")
    assert file.stat().st_mode & 0o777 == 0o640
    assert not write_address(file, "https://new.example"), "it is there already"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("credentials", "address", "warns"),
    [
        ("serviceAccount: {}", "https://thanos-querier.apps.example.com", True),
        ("serviceAccount: {}", "https://thanos-querier.openshift-monitoring.svc:9091", False),
        ("serviceAccount: {caKey: ca.crt}", "https://thanos-querier.apps.example.com", False),
        ("token: {secretKey: prometheusToken}", "https://thanos-querier.apps.example.com", False),
    ],
)
def test_an_address_that_the_ca_of_services_does_not_cover_is_detected(
    tmp_path: Path, credentials: str, address: str, warns: bool
) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(STACK.replace("token: {secretKey: prometheusToken}", credentials))
    assert trusts_services_only(file, address) is warns


def test_a_stack_file_without_a_provider_gets_one_and_another_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text("config:\n  secondary-scheduler:schedulerName: s\n")
    write_address(file, "https://new.example")
    assert "metricProvider:\n    type: Prometheus\n    address: https://new.example" in file.read_text()
    for text in ("- a\n", "a: [\n"):
        file.write_text(text)
        with pytest.raises(CommandError):
            write_address(file, "https://new.example")
        assert file.read_text() == text
