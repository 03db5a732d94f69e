"""Traces of the real daemon on a real API server, sent to a receiver of OTLP over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import LocalCluster
from tests.support.daemon import Cluster, RunningDaemon, configuration, daemon
from tests.support.otlp import Receiver, attributes_of, receiver_running
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration]

NAME = "tracing"
SECRET = "canary-of-the-collector"
WITHOUT_EXTRA = "import sys; sys.modules['opentelemetry'] = None; from scheduler.__main__ import main; sys.exit(main())"


@pytest.fixture(scope="module")
def cluster(control_plane: LocalCluster) -> Iterator[Cluster]:
    cluster = Cluster(control_plane.kubeconfig, NAME)
    yield cluster
    cluster.remove()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiver_running() as receiver:
        yield receiver


def environment(receiver: Receiver) -> dict[str, str]:
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address,
        "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={SECRET}",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_SERVICE_NAME": NAME,
    }


def spans_counted(running: RunningDaemon, outcome: str) -> float:
    """How many spans the scheduler counted so."""
    pattern = rf'^secondary_scheduler_spans_total{{outcome="{outcome}"}} (\S+)$'
    counted = re.findall(pattern, running.get("/metrics").text, re.MULTILINE)
    return float(counted[0]) if counted else 0.0


def test_a_pod_that_is_bound_and_one_that_fits_nowhere_are_traced(
    control_plane: LocalCluster, cluster: Cluster, receiver: Receiver, tmp_path: Path
) -> None:
    content = configuration(control_plane.kubeconfig, NAME)
    with daemon(tmp_path, content, environment=environment(receiver)) as running:
        name = cluster.create(NAME)
        eventually(lambda: receiver.attempts(NAME), "a trace")
        root = receiver.attempts(NAME)[0]
        attributes = attributes_of(root)
        assert root.name == "SchedulingAttempt"
        assert attributes["k8s.pod.name"] == name
        assert attributes["k8s.node.name"] == cluster.node_of(name)
        assert (attributes["secondary_scheduler.result"], attributes["secondary_scheduler.attempt"]) == ("scheduled", 1)
        children = {span.name: span for span in receiver.children(root)}
        assert children.keys() == {"SchedulePod", "BindingCycle"}
        for span in children.values():
            assert span.trace_id == root.trace_id
            assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano
        assert receiver.resources[0]["service.name"] == NAME
        spec = {"schedulerName": NAME, "nodeSelector": {"no": "such-node"}, "containers": [{"name": "c", "image": "i"}]}
        cluster.core.create_namespaced_pod(NAME, {"metadata": {"name": "nowhere"}, "spec": spec})
        eventually(lambda: len(receiver.attempts(NAME)) > 1, "a second trace")
        root = receiver.attempts(NAME)[1]
        assert attributes_of(root)["secondary_scheduler.result"] == "unschedulable"
        assert attributes_of(root)["secondary_scheduler.rejected_by"] == ["NodeAffinity"]
        assert {span.name for span in receiver.children(root)} == {"SchedulePod", "PostFilter"}
        eventually(lambda: spans_counted(running, "exported") >= 6, "they are counted")
    assert {headers["api-key"] for headers in receiver.headers} == {SECRET}
    assert SECRET not in running.log
    cluster.core.delete_namespaced_pod("nowhere", NAME, grace_period_seconds=0)


def test_a_collector_that_fails_costs_spans_and_no_pod(
    control_plane: LocalCluster, cluster: Cluster, receiver: Receiver, tmp_path: Path
) -> None:
    receiver.status = 503
    content = configuration(control_plane.kubeconfig, NAME)
    with daemon(tmp_path, content, environment=environment(receiver)) as running:
        cluster.place(NAME)
        event = "spans cannot be exported: they are dropped until they can"
        eventually(lambda: running.records(event), "it says so")
        assert running.records(event)[0]["reason"] == "HTTP 503"
        eventually(lambda: spans_counted(running, "export_failed") >= 3, "they are counted")
        receiver.status = 200
        cluster.place(NAME)
        eventually(lambda: running.records("spans are exported again"), "it recovers")
        assert running.get("/readyz").text == "ok"
    assert SECRET not in running.log
    assert running.process.returncode == 0


def test_a_missing_extra_is_one_line_and_pods_are_placed(
    control_plane: LocalCluster, cluster: Cluster, receiver: Receiver, tmp_path: Path
) -> None:
    content = configuration(control_plane.kubeconfig, NAME)
    program = ("-c", WITHOUT_EXTRA)
    with daemon(tmp_path, content, environment=environment(receiver), program=program) as running:
        (line,) = running.records("attempts are not traced")
        assert "pip install 'secondary-scheduler[tracing]'" in line["reason"]
        cluster.place(NAME)
    assert receiver.headers == []
