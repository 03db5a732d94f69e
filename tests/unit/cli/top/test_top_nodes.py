"""`top nodes`: what it counts, how it sorts, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

import scheduler.kube.client as kube
from scheduler.answers import LoadEstimate, NodeLoadReport, NodeLoadRow, SourceLoads
from scheduler.catalog import DEFAULT_KUBERNETES
from scheduler.kube.client import ClientConfig
from secondary_scheduler.cli import app
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.top.reading import ReportedLoads, read_nodes, read_pods
from secondary_scheduler.cli.top.rendering import lines
from secondary_scheduler.cli.top.usage import NodeUsageList, SortKey, usage_document
from secondary_scheduler.clusterstatus.schedulerclient import SchedulerAnswer, SchedulerPod
from tests.support.answers import API
from tests.unit.cli.fakeapi import FakeConnection
from tests.unit.cli.status.installation import NOW

GIBIBYTE = 1 << 30
SOURCE = "Prometheus:http://prometheus:9090"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/openshift-secondary-scheduler-operator/leases"


def node(name: str, **labels: str) -> dict[str, Any]:
    status = {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def pod(on: str, cpu: str = "500m", memory: str = "1Gi", scheduler: str = "mine") -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "metadata": {"namespace": "shop", "name": "p"},
        "spec": {"nodeName": on, "schedulerName": scheduler, "containers": [container]},
    }


def connection(nodes: Sequence[Any], pods: Sequence[Any], **more: Any) -> Any:
    return FakeConnection({"/api/v1/nodes": list(nodes), "/api/v1/pods": list(pods)}, page=2, **more)


def load(
    name: str, cpu: float | None, memory: float | None = 40.0, *, recent: float = 0.0, age: float = 9.0
) -> NodeLoadRow:
    estimate = LoadEstimate(None if cpu is None else cpu + recent, memory)
    return NodeLoadRow(name, cpu, memory, estimate, age, age < 300)


def loads(*nodes: NodeLoadRow, source: str = SOURCE, fresh: bool = True) -> ReportedLoads:
    return ReportedLoads({source: SourceLoads(source, fresh, 9.0, nodes)})


def document(
    nodes: Sequence[Any], pods: Sequence[Any] | None, measured: ReportedLoads, key: SortKey = SortKey.CPU
) -> NodeUsageList:
    api = connection(nodes, pods or ())
    sums = None if pods is None else read_pods(api, DEFAULT_KUBERNETES)
    return usage_document(read_nodes(api, ""), sums, measured, [], key, NOW)


def names(content: NodeUsageList) -> list[str]:
    return [item.name for item in content.items]


def test_a_line_has_load_requests_and_pods_of_a_node() -> None:
    pods = [pod("a"), pod("a"), pod("a", "1", scheduler="default-scheduler"), pod("b", "250m", "512Mi")]
    measured = loads(load("a", 35.4, recent=10), load("b", 80.0))
    assert list(lines(document([node("a"), node("b"), node("c")], pods, measured), wide=False)) == [
        "NODE  CPU  CPU EST  MEMORY  MEM EST  AGE           CPU REQUESTED   MEMORY REQUESTED   PODS      BY SCHEDULER",
        "b     80%  80%      40%     40%      9 s           0.25 of 4 (6%)  0.5Gi of 8Gi (6%)  1 of 110  mine 1",
        "a     35%  45%      40%     40%      9 s           2 of 4 (50%)    3Gi of 8Gi (38%)   3 of 110  mine 2, "
        "default-scheduler 1",
        "c     -    -        -       -        not measured  0 of 4 (0%)     0Gi of 8Gi (0%)    0 of 110  -",
    ]


@pytest.mark.parametrize(
    ("key", "order"),
    [
        (SortKey.CPU, ["c", "a", "b", "d"]),
        (SortKey.MEMORY, ["b", "a", "c", "d"]),
        (SortKey.PODS, ["a", "b", "d", "c"]),
        (SortKey.REQUESTS, ["d", "a", "b", "c"]),
        (SortKey.NAME, ["a", "b", "c", "d"]),
    ],
)
def test_the_largest_come_first_and_what_is_not_known_last(key: SortKey, order: list[str]) -> None:
    pods = [pod("a", "100m", "6Gi"), pod("a", "0", "0"), pod("d", "4", "0"), pod("b", "1", "0")]
    measured = loads(load("a", 50.0, 50.0), load("b", 40.0, 90.0), load("c", 30.0, 10.0, recent=40.0))
    assert names(document([node(name) for name in "abcd"], pods, measured, key)) == order


def test_of_two_sources_the_fresh_one_is_shown_and_stale_load_is_marked() -> None:
    sources = loads(load("a", 10.0, age=900.0), load("b", 20.0, age=900.0), source="old", fresh=False)
    sources.sources["new"] = SourceLoads("new", True, 5.0, (load("a", 70.0),))
    content = document([node("a"), node("b")], [], sources)
    text = list(lines(content, wide=True))
    assert text[1].split()[:2] == ["a", "70%"]
    assert text[1].endswith("new")
    assert "15 min, stale" in text[2]
    assert text[-1] == "Load is stale: old, 9 s old"
    assert [each.source for each in content.items[0].load] == ["new", "old"]


def test_lists_are_read_page_by_page_with_selectors_that_the_api_server_applies() -> None:
    api = connection([node(name) for name in "abcde"], [pod("a")] * 5)
    assert len(read_nodes(api, "pool=batch")) == 5
    assert sum(read_pods(api, DEFAULT_KUBERNETES).by_node["a"].pods.values()) == 5
    nodes = [params for path, params in api.asked if path == "/api/v1/nodes"]
    pods = [params for path, params in api.asked if path == "/api/v1/pods"]
    assert [params.get("continue") for params in nodes] == [None, "2", "4"]
    assert all(params["labelSelector"] == "pool=batch" and params["limit"] for params in nodes)
    assert all("status.phase!=Succeeded" in params["fieldSelector"] and params["limit"] for params in pods)


def test_what_cannot_be_read_of_an_object_ends_nothing() -> None:
    broken = pod("a", cpu="much", scheduler="theirs")
    api = connection(
        [node("a"), {"metadata": {"name": "x"}, "status": {"allocatable": {"cpu": "many"}}}],
        [pod("a"), broken, {"spec": 7}],
    )
    sums = read_pods(api, DEFAULT_KUBERNETES)
    assert (sums.by_node["a"].cpu, dict(sums.by_node["a"].pods), sums.unreadable) == (500, {"mine": 1, "theirs": 1}, 2)
    assert [each.name for each in read_nodes(api, "")] == ["a"]


def test_names_of_tenants_neither_steer_the_terminal_nor_fill_it() -> None:
    invented = [pod("a", scheduler=f"\x1b[2J{number}{'x' * 300}") for number in range(50)]
    content = document([node("a"), node("\x1b]0;owned\x07")], invented, loads(load("a", 10.0)))
    text = list(lines(content, wide=True))
    assert not any(character < " " for line in text for character in line)
    assert all(len(line) < 900 for line in text)
    pods = content.items[0].pods
    assert pods is not None
    assert (pods.total, len(pods.by_scheduler), pods.of_other_schedulers) == (50, 10, 40)


def test_the_document_is_the_same_in_json_and_yaml_and_its_fields_are_kept() -> None:
    content = json.loads(msgspec.json.encode(document([node("a")], [pod("a")], loads(load("a", 35.0, None)))))
    assert list(content) == ["kind", "apiVersion", "time", "loadSources", "items", "notShown"]
    assert (content["apiVersion"], content["kind"]) == ("secondary-scheduler.io/v1", "NodeUsageList")
    assert content["items"] == [
        {
            "name": "a",
            "ready": True,
            "schedulable": True,
            "allocatable": {"cpuMilli": 4000, "memoryBytes": 8 * GIBIBYTE, "pods": 110},
            "requested": {"cpuMilli": 500, "memoryBytes": GIBIBYTE},
            "pods": {"total": 1, "byScheduler": {"mine": 1}, "ofOtherSchedulers": 0},
            "load": [
                {
                    "source": SOURCE,
                    "cpu": 35.0,
                    "memory": None,
                    "estimated": {"cpu": 35.0, "memory": None},
                    "ageSeconds": 9.0,
                    "fresh": True,
                }
            ],
        }
    ]


CONFIG = ClientConfig(server="https://api:6443", namespace="default", source="test")
REPORT = msgspec.json.encode(NodeLoadReport(sources=(SourceLoads(SOURCE, True, 9.0, (load("a", 35.0),)),)))
LEASE = {
    "metadata": {"annotations": {"secondary-scheduler.io/configuration-hash": "h"}},
    "spec": {"holderIdentity": "leader_1"},
}
SHOWN = [
    ([], SchedulerAnswer(200, REPORT), "", "35%"),
    (["/api/v1/pods"], SchedulerAnswer(200, REPORT), "this user needs to list pods in all namespaces", "35%"),
    ([LEASES], SchedulerAnswer(200, REPORT), "this user needs to list leases", "not shown"),
    ([], SchedulerAnswer(403, b"the token is not allowed"), "this user needs to get nodes", "not shown"),
    (
        [],
        SchedulerAnswer(403, b"a bearer token is needed"),
        "with --as-service-account (it needs to get nodes)",
        "not shown",
    ),
    ([], SchedulerAnswer(404, b""), "it is older", "not shown"),
    ([], SchedulerAnswer(200, json.dumps({**API, "sources": 3}).encode()), "cannot read its answer", "not shown"),
    ([], SchedulerAnswer(200, json.dumps({**API, "sources": []}).encode()), "", "not measured"),
]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls the command against a fake API server and a fake scheduler."""

    def run(words: list[str], refused: Sequence[str], answer: SchedulerAnswer) -> Any:
        answers = {"/api/v1/nodes": [node("a")], "/api/v1/pods": [pod("a")], LEASES: [LEASE]}

        class Connection(FakeConnection):
            def __init__(self, *_: Any, **__: Any) -> None:
                super().__init__(answers, refused)

            def close(self) -> None:
                pass

        async def get(pod: SchedulerPod, path: str, query: Mapping[str, str]) -> SchedulerAnswer:
            assert (pod.name, path) == ("leader", "/debug/nodes")
            return answer

        monkeypatch.setattr(kube, "SyncConnection", Connection)
        monkeypatch.setattr(SchedulerPod, "get", get)
        monkeypatch.setattr("secondary_scheduler.cli.connecting.load_connection", lambda *_: CONFIG)
        return CliRunner().invoke(app.build(words), words)

    return run


@pytest.mark.parametrize(("refused", "answer", "line", "cell"), SHOWN)
def test_without_a_right_everything_else_is_shown_and_one_line_names_it(
    call: Any, refused: list[str], answer: SchedulerAnswer, line: str, cell: str
) -> None:
    done = call(["top", "nodes"], refused, answer)
    assert done.exit_code == 0
    missing = [text for text in done.output.splitlines() if text.startswith("Not shown: ")]
    assert len(missing) == bool(line)
    assert line in "".join(missing)
    assert cell in done.output


def test_without_nodes_there_is_nothing_to_show(call: Any) -> None:
    done = call(["top", "nodes"], ["/api/v1/nodes"], SchedulerAnswer(200, REPORT))
    assert isinstance(done.exception, CommandError)
    assert "https://api:6443: this user needs to list nodes" in str(done.exception)


def test_a_program_gets_the_same_in_both_forms(call: Any) -> None:
    as_json = json.loads(call(["top", "nodes", "-o", "json"], [], SchedulerAnswer(200, REPORT)).output)
    as_yaml = yaml.safe_load(call(["top", "nodes", "-o", "yaml"], [], SchedulerAnswer(200, REPORT)).output)
    assert {**as_json, "time": ""} == {**as_yaml, "time": ""}
    assert as_json["loadSources"] == [{"source": SOURCE, "fresh": True, "ageSeconds": 9.0}]
