"""The edges of the process: flags and environment, health endpoints, metrics, log level."""

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CONTENT_TYPE_LATEST
from structlog.testing import capture_logs

from scheduler.connectionlimits import DEFAULT_LIMITS
from scheduler.kube.client import ClientConfig, ConnectionLost
from secondary_scheduler.operator import logs
from secondary_scheduler.operator.app import kubernetes_minor
from secondary_scheduler.operator.metrics import OperatorMetrics
from secondary_scheduler.operator.options import parse_options
from secondary_scheduler.rebalancer.metrics import RebalancerMetrics
from secondary_scheduler.serving import serve
from tests.support.rawclient import send_garbage

POD = {"POD_NAMESPACE": "ns", "POD_NAME": "operator-abc", "POD_IP": "127.0.0.9"}


def test_a_pods_environment_is_enough():
    options = parse_options([], POD)
    assert options.namespace_of(ClientConfig(server="https://x", namespace="other")) == "ns"
    assert (options.identity, options.bind_address, options.port) == ("operator-abc", "127.0.0.9", 8080)


def test_flags_win_over_the_environment():
    arguments = ["--namespace", "mine", "--bind-address", "127.0.0.1", "--port", "0", "--kubeconfig", "k", "-v=4"]
    options = parse_options(arguments, POD)
    assert options.namespace_of(ClientConfig(server="https://x")) == "mine"
    assert (options.bind_address, options.port, options.verbosity) == ("127.0.0.1", 0, 4)
    assert options.kubeconfig == Path("k")


def test_outside_a_pod_the_connection_says_the_namespace():
    options = parse_options([], {})
    assert options.namespace_of(ClientConfig(server="https://x", namespace="default")) == "default"
    assert options.identity is None


@pytest.mark.parametrize("arguments", [["--port", "70000"], ["--port", "x"], ["--unknown"], ["-v", "much"]])
def test_wrong_usage_ends_with_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_options(arguments, {})
    assert ended.value.code == 2
    assert "secondary-scheduler-operator: error:" in capsys.readouterr().err


class Reviews:
    """An API server that knows `good` and `curious`, who may read nothing."""

    async def post(self, path, body):
        if path.endswith("tokenreviews"):
            token = body["spec"]["token"]
            if token == "broken":
                raise ConnectionLost("away")
            return json.dumps({"status": {"authenticated": token != "nobody", "user": {"username": token}}}).encode()
        attributes = {"path": "/metrics", "verb": "get"}
        allowed = body["spec"]["user"] == "good" and body["spec"]["nonResourceAttributes"] == attributes
        return json.dumps({"status": {"allowed": allowed}}).encode()

    async def close(self):
        """Nothing to release."""


def serving(trouble, metrics=None):
    return serve(
        host="127.0.0.1",
        port=0,
        metrics_port=0,
        metrics=metrics or OperatorMetrics("1.2.3"),
        limits=DEFAULT_LIMITS,
        healthy=lambda: trouble["healthy"],
        ready=lambda: trouble["ready"],
        reviews=Reviews(),
    )


async def test_metrics_are_shown_over_tls_to_whom_the_api_server_allows():
    async with serving({"healthy": None, "ready": None}) as ports:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{ports.health}") as session:
            assert (await session.get("/metrics")).status == 404
        async with aiohttp.ClientSession(f"https://127.0.0.1:{ports.metrics}") as session:

            async def get(token):
                headers = {"Authorization": token if token and " " in token else f"Bearer {token}"} if token else {}
                async with session.get("/metrics", headers=headers, ssl=False) as response:
                    return response.status, await response.text()

            needed, refused = "/metrics: a bearer token is needed\n", "/metrics: this token may not read it now\n"
            for token, expected in (
                (None, (403, needed)),
                ("Basic good", (403, needed)),
                ("Bearer  ", (403, needed)),
                ("nobody", (401, refused)),
                ("curious", (403, refused)),
                ("broken", (500, "the API server could not review the token\n")),
            ):
                assert await get(token) == expected
            headers = {"Authorization": "Bearer good"}
            async with session.get("/metrics", headers=headers, ssl=False) as response:
                assert response.headers["Content-Type"] == CONTENT_TYPE_LATEST
            status, text = await get("good")
            assert status == 200
            assert 'secondary_scheduler_operator_build_info{version="1.2.3"} 1.0' in text


async def test_health_answers_say_what_is_wrong():
    trouble = {"healthy": None, "ready": "the caches are not synced yet"}
    async with serving(trouble) as ports, aiohttp.ClientSession(f"http://127.0.0.1:{ports.health}") as session:

        async def get(path):
            async with session.get(path) as response:
                return response.status, await response.text()

        assert await get("/healthz") == (200, "ok")
        assert await get("/readyz") == (503, "the caches are not synced yet")
        trouble.update(healthy="stuck", ready=None)
        assert await get("/healthz") == (503, "stuck")
        assert await get("/livez") == (503, "stuck")
        assert await get("/readyz") == (200, "ok")


@pytest.mark.parametrize(
    ("metrics", "name"),
    [(OperatorMetrics("1"), "secondary_scheduler_operator"), (RebalancerMetrics("1"), "secondary_scheduler_rebalance")],
    ids=["operator", "rebalancer"],
)
async def test_malformed_requests_and_dropped_connections_are_counted_and_said_once_for_each_port(
    metrics, name, caplog
):
    with capture_logs() as logs:
        async with serving({"healthy": None, "ready": None}, metrics) as ports:
            for port, tls in ((ports.health, False), (ports.metrics, True)):
                answers = await asyncio.to_thread(send_garbage, port, 30, tls=tls)
                assert set(answers) == {b"HTTP/1.0 400 Bad Request"}
            silent = [await asyncio.open_connection("127.0.0.1", ports.metrics) for _ in range(DEFAULT_LIMITS[1] + 1)]
            with pytest.raises(ConnectionResetError):
                await silent[0][0].read()
            for _, writer in silent:
                writer.transport.abort()
    events = {(line["port"], line["event"], line["count"]) for line in logs}
    assert events == {
        ("health", "malformed requests", 1),
        ("health", "malformed requests", 29),
        ("metrics", "malformed requests", 1),
        ("metrics", "malformed requests", 29),
        ("metrics", "connections dropped", 1),
    }
    text = metrics.expose().decode()
    assert f'{name}_dropped_connections_total{{reason="malformed"}} 60.0' in text
    assert f'{name}_dropped_connections_total{{reason="address_limit"}} 1.0' in text
    assert not any("exc_info" in line for line in logs)
    assert not caplog.records, "nothing of aiohttp's own, with a traceback each"


def test_condition_series_follow_the_instance_and_go_with_it():
    metrics = OperatorMetrics("1")
    resource = {"metadata": {"namespace": "ns", "name": "cluster"}}
    labels = {"namespace": "ns", "name": "cluster", "condition": "Degraded"}

    def values():
        name = "secondary_scheduler_operator_condition"
        samples = {s: metrics.registry.get_sample_value(name, {**labels, "status": s}) for s in ("True", "False")}
        return samples["True"], samples["False"]

    metrics.show_conditions(resource, {"conditions": [{"type": "Degraded", "status": "True", "reason": "R"}]})
    assert values() == (1, 0)
    metrics.show_conditions(resource, {"conditions": [{"type": "Degraded", "status": "False"}]})
    assert values() == (0, 1)
    metrics.forget_instance("ns", "cluster")
    assert values() == (None, None)


def test_the_reason_of_degraded_is_shown_while_it_lasts_and_none_beside_it():
    metrics = OperatorMetrics("1")
    resource = {"metadata": {"namespace": "ns", "name": "cluster"}}

    def reasons():
        (family,) = (each for each in metrics.registry.collect() if each.name.endswith("_operator_degraded"))
        return {sample.labels["reason"]: sample.value for sample in family.samples}

    def show(status, reason):
        metrics.show_conditions(resource, {"conditions": [{"type": "Degraded", "status": status, "reason": reason}]})

    show("True", "ConfigInvalid")
    assert reasons() == {"ConfigInvalid": 1}
    show("True", "CanaryFailed")
    assert reasons() == {"CanaryFailed": 1}
    show("False", "AsExpected")
    assert reasons() == {}
    show("True", "CanaryFailed")
    metrics.forget_instance("ns", "cluster")
    assert reasons() == {}


@pytest.mark.parametrize(
    ("root", "levels", "expected"),
    [
        (logging.INFO, ["Normal"], logging.INFO),
        (logging.INFO, ["Debug"], logging.DEBUG),
        (logging.INFO, ["Normal", "Trace", ""], logging.DEBUG),
        (logging.DEBUG, ["Normal"], logging.DEBUG),
        (logging.INFO, [""], logging.INFO),
    ],
)
def test_the_operator_is_as_talkative_as_the_most_talkative_of_flag_and_specs(root, levels, expected, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "level", root)
    own = logging.getLogger("secondary_scheduler")
    monkeypatch.setattr(own, "level", own.level)
    logs.follow(levels)
    assert own.getEffectiveLevel() == expected


class Versions:
    """Takes the place of KubeClient."""

    def __init__(self, answer):
        self._answer = answer

    async def get(self, path):
        assert path == "/version"
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "minor"),
    [
        (b'{"major": "1", "minor": "34"}', 34),
        (b'{"minor": "27+"}', 27),
        (b'{"minor": ""}', None),
        (b"{}", None),
        (b"[]", None),
        (b"<html>", None),
        (ConnectionLost("GET: reset"), None),
    ],
)
async def test_the_version_of_the_cluster_is_read_or_left_open(answer, minor):
    assert await kubernetes_minor(Versions(answer)) == minor


def test_without_a_connection_it_ends_with_one_line_and_code_1(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "secondary_scheduler.operator", "--kubeconfig", str(tmp_path / "missing")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert json.loads(line)["error"] == f"{tmp_path / 'missing'}: No such file or directory"
