"""`ui` on a cluster: a fake one, which hands out a snapshot, and a fake scheduler that answers about pods."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from typer.testing import CliRunner

from scheduler.answers import DecisionList
from scheduler.kube.client import ClientConfig, KubeError
from secondary_scheduler.cli import app, snapshotfile
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.cli.ui import live
from secondary_scheduler.cli.ui.app import Site, application
from secondary_scheduler.cli.ui.live import LiveCluster
from tests.support.answers import decision, decisions, tried_again
from tests.support.pagemodels import CONFIGURATION, snapshot_items

TOKEN = "cluster-token-canary"
SCORE = {"raw": 40, "normalized": 50, "weighted": 250}
LOAD = {"Prometheus:https://p": {"cpu": 35.4, "memory": None, "age": 12.0}}


def attempt(**fields: Any) -> dict[str, Any]:
    nodes = [
        {
            "name": "n2",
            "total": 100,
            "chosen": False,
            "scores": {"TargetLoadPacking": {**SCORE, "weighted": 100}},
            "load": {},
        },
        {"name": "n1", "total": 250, "chosen": True, "scores": {"TargetLoadPacking": SCORE}, "load": LOAD},
    ]
    rejected = [{"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 1, "examples": ["n3"]}]
    details = {"evaluated": 3, "feasible": 2, "ties": 1, "nodes": nodes, "rejected": rejected, "new_field": 1}
    ages = {"Prometheus:https://p": 12.0}
    return decision(
        **{"schedulerName": "secondary-scheduler", "attempt": 2, "loadAgeSeconds": ages, "details": details, **fields}
    )


class FakeCluster:
    """Stands in for the API server and the scheduler; `nodes` and `answer` are what they have."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes = 4
        self.problem: Exception | None = None
        self.answer = decisions(waiting=None)
        self.asked: list[tuple[str, str]] = []
        self.files: list[Path] = []
        config = ClientConfig(server="https://api.example.com:6443", token=TOKEN)
        monkeypatch.setattr(snapshotfile, "load_connection", lambda kubeconfig, context: config)
        monkeypatch.setattr(live, "take_snapshot", self._take)
        monkeypatch.setattr(live, "find_schedulers", lambda *args, **options: SimpleNamespace(about_pod=self._ask))

    def _take(self, config: ClientConfig, origin: Any, file: Path, *, as_yaml: bool, say: Any) -> None:
        if self.problem is not None:
            raise self.problem
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": snapshot_items(self.nodes, 3)}))
        self.files.append(file)

    def _ask(self, namespace: str, name: str) -> Any:
        self.asked.append((namespace, name))
        if self.problem is not None:
            raise self.problem
        return msgspec.convert(self.answer, DecisionList)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    return FakeCluster(monkeypatch)


class Pages:
    def __init__(self, client: TestClient, site: Site) -> None:
        self.client, self.site = client, site

    async def get(self, path: str, status: int = 200) -> str:
        response = await self.client.get(f"{self.site.root}{path}")
        text = await response.text()
        assert response.status == status, text
        return text

    async def refresh(self) -> tuple[int, str]:
        response = await self.client.post(
            f"{self.site.root}/refresh", headers={"Sec-Fetch-Site": "same-origin"}, allow_redirects=False
        )
        return response.status, visible(await response.text())


def visible(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text.partition("<main")[2]).split())


@pytest.fixture
async def pages(cluster: FakeCluster, tmp_path: Path) -> AsyncIterator[Pages]:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIGURATION)
    request = SnapshotRequest([], config)
    reached = LiveCluster(None, None, None, "scheduler-namespace", None, 10259, None)
    site = Site(reached.read(request, lambda line: None), request, reached)
    async with TestClient(TestServer(application(site), host="127.0.0.1")) as client:
        yield Pages(client, site)


async def test_a_new_snapshot_is_taken_on_request_only_and_its_file_does_not_stay(
    cluster: FakeCluster, pages: Pages
) -> None:
    assert "4 nodes by measured" in visible(await pages.get("/nodes"))
    cluster.nodes = 6
    assert "4 nodes by measured" in visible(await pages.get("/nodes"))
    assert (await pages.refresh())[0] == 303
    assert "6 nodes by measured" in visible(await pages.get("/nodes"))
    assert len(cluster.files) == 2
    assert not [file for file in cluster.files if file.exists() or file.parent.exists()]


async def test_a_cluster_that_does_not_answer_leaves_the_old_page_model(cluster: FakeCluster, pages: Pages) -> None:
    cluster.problem = KubeError("GET /api/v1/nodes: connection refused")
    status, text = await pages.refresh()
    assert status == 502
    assert "No new snapshot: https://api.example.com:6443: GET /api/v1/nodes: connection refused" in text
    assert "4 nodes by measured" in visible(await pages.get("/nodes"))


async def test_a_new_snapshot_needs_a_form_of_our_own(cluster: FakeCluster, pages: Pages) -> None:
    response = await pages.client.post(f"{pages.site.root}/refresh", headers={"Origin": "https://evil.example"})
    assert response.status == 403
    assert len(cluster.files) == 1


async def test_the_running_scheduler_is_asked_about_a_pod(cluster: FakeCluster, pages: Pages) -> None:
    assert "Ask" in visible(await pages.get("/why"))
    assert cluster.asked == []
    cluster.answer = decisions(attempt(), attempt(result="unschedulable", node=None, message="no room"), waiting=None)
    text = visible(await pages.get("/why?namespace=shop&name=web"))
    assert cluster.asked == [("shop", "web")]
    assert "Last attempt: scheduled on n1" in text
    assert "n1 chosen 250 250 (40 → 50) 35 %, not known, 12 s" in text
    assert text.index("n1 chosen") < text.index("n2 100")
    assert "NodeResourcesFit Insufficient cpu 1 n3" in text
    assert "2026-11-24T10:00:00Z 2 unschedulable no room" in text


async def test_a_waiting_pod_says_in_which_queue_and_what_would_help(cluster: FakeCluster, pages: Pages) -> None:
    waiting = tried_again(
        queue="backoff",
        attempts=2,
        backoffSeconds=1.5,
        wokenBy={"NodeResourcesFit": ["Node/Add", "Pod/Delete"], "DefaultPreemption": []},
    )
    cluster.answer = decisions(waiting=waiting)
    text = visible(await pages.get("/why?namespace=shop&name=web"))
    assert "Queue backoff For 3.5 s After 2 attempts Tried again in 1.5 s" in text
    assert "Wakes it (NodeResourcesFit) Node/Add, Pod/Delete" in text


async def test_a_member_of_a_gang_shows_the_domains_with_most_room(cluster: FakeCluster, pages: Pages) -> None:
    gang = {
        "name": "pod group ml/training", "minimum": 8, "placed": 2, "waiting": 6, "levels": ["rack"],
        "domains": [{"domain": "rack=<r3>", "nodes": 4, "room": 5}], "domainCount": 14,
    }  # fmt: skip
    cluster.answer = decisions(waiting=tried_again(queue="backoff", attempts=2, gang=gang))
    text = visible(await pages.get("/why?namespace=shop&name=web"))
    assert "Gang pod group ml/training: 2 of at least 8 members have nodes, 6 wait" in text
    assert "Topology all in one domain of rack" in text
    assert "Domains with most room, of 14 Domain Nodes Room for members rack=&lt;r3&gt; 4 5" in text


async def test_an_attempt_without_a_number_is_shown(cluster: FakeCluster, pages: Pages) -> None:
    cluster.answer = decisions(attempt(attempt=None), waiting=None)
    text = visible(await pages.get("/why?namespace=shop&name=web"))
    assert "Time 2026-11-24T10:00:00Z Profile secondary-scheduler" in text


async def test_rejections_that_were_taken_back_a_nomination_and_an_error_are_shown(
    cluster: FakeCluster, pages: Pages
) -> None:
    rejection = {"plugin": "HighLoadFilter", "reason": "too much load", "nodes": 2, "examples": ["n1"]}
    details = {"evaluated": 2, "feasible": 0, "ties": 0, "nodes": [], "rejected": []}
    for field, value, shown in (
        ("taken_back", [rejection], "taken back as no node was left"),
        ("nominated", True, "It fits where preemption made room for it; no other node was looked at."),
        ("error", "<b>no state", "Nothing can be said about any node: &lt;b&gt;no state"),
    ):
        cluster.answer = decisions(attempt(details={**details, field: value}), waiting=None)
        assert shown in visible(await pages.get("/why?namespace=shop&name=web"))


async def test_why_the_scheduler_does_not_answer_is_shown(cluster: FakeCluster, pages: Pages) -> None:
    cluster.problem = CommandError("shop/web: unknown to scheduler-1; <script>alert(1)</script>")
    text = await pages.get("/why?namespace=shop&name=web", 502)
    assert "shop/web: unknown to scheduler-1; &lt;script&gt;" in text


async def test_no_page_has_a_credential(cluster: FakeCluster, pages: Pages) -> None:
    cluster.answer = decisions(attempt(), waiting=None)
    for path in ("/nodes", "/queue", "/decisions/1", "/configuration", "/why?namespace=shop&name=web"):
        response = await pages.client.get(f"{pages.site.root}{path}")
        assert TOKEN not in await response.text()
        assert TOKEN not in str(response.headers)


async def test_files_have_no_running_scheduler(cluster: FakeCluster, pages: Pages) -> None:
    site = Site(pages.site.page_model)
    async with TestClient(TestServer(application(site), host="127.0.0.1")) as client:
        of_files = Pages(client, site)
        assert "Why is it there" not in await of_files.get("/nodes")
        await of_files.get("/why", 404)


def test_options_of_a_cluster_beside_files_are_refused() -> None:
    for options, message in (
        (["--scheduler-pod", "s"], "--scheduler-pod: of a running cluster; leave out --snapshot"),
        (["--config", "c.yaml", "--context", "prod"], "--config and --context exclude each other; leave one out"),
    ):
        words = ["ui", "--snapshot", "cluster.json", *options]
        done = CliRunner().invoke(app.build(words), words)
        assert isinstance(done.exception, CommandError)
        assert str(done.exception) == message
        assert done.exception.code == 2
