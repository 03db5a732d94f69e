"""The first view of a running cluster, and the list of pods to ask about: a fake cluster of a made-up page model."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.status.rendering import lines
from secondary_scheduler.cli.ui.app import Site, application
from secondary_scheduler.clusterstatus.status import State, StatusReport
from secondary_scheduler.views.pagemodels import PageModel
from tests.support.pagemodels import write_page_model
from tests.support.runningpages import FakeCluster, running_site, status_of
from tests.support.views import Pages
from tests.unit.cli.status import installation as made
from tests.unit.cli.status.installation import condition


@pytest.fixture(scope="module")
def page_model(tmp_path_factory: pytest.TempPathFactory) -> PageModel:
    return running_site(write_page_model(tmp_path_factory.mktemp("page_model"), 30, 40)).page_model


class Reader(Pages):
    def __init__(self, client: TestClient, site: Site, cluster: FakeCluster) -> None:
        super().__init__(client, site)
        self.cluster = cluster

    async def read(self, path: str, status: int = 200) -> str:
        """What is seen of a page below its navigation, in one line."""
        text = (await self.get(path, status)).partition("<main")[2]
        return " ".join(re.sub(r"<[^>]*>", " ", text).split())


@pytest.fixture
async def reader(page_model: PageModel) -> AsyncIterator[Reader]:
    cluster = FakeCluster(None, None, None, None, None, 10259, None, page_model, [status_of(page_model)])
    site = Site(page_model, live=cluster)
    async with TestClient(TestServer(application(site), host="127.0.0.1")) as client:
        yield Reader(client, site, cluster)


def words_of(text: str) -> str:
    return " ".join(re.sub(r"[^\w./:-]+", " ", text).split())


async def test_a_reader_begins_with_health_and_one_of_files_with_the_nodes(
    reader: Reader, page_model: PageModel
) -> None:
    response = await reader.client.get(f"{reader.site.root}/", allow_redirects=False)
    assert response.headers["Location"] == f"{reader.site.root}/health"
    assert Site(page_model).first.endswith("/nodes")


async def test_the_page_says_what_status_says(reader: Reader) -> None:
    shown = words_of(await reader.read("/health"))
    (document,) = reader.cluster.answers
    assert isinstance(document, StatusReport)
    text = list(lines(document, made.NOW, wide=False))
    for label in ("profile", "configuration", "rollout", "load", "attempts", "version"):
        first = next(line for line in text if line.startswith(f"  {label} "))
        assert words_of(first.partition(label)[2]) in shown, label
    assert f"Leader {made.POD} for 3 h" in shown
    assert "Replicas ready 1 of 1" in shown
    assert "Pods waiting 3 1 backoff 2 unschedulable" in shown
    assert "Age of the load 12 s fresh" in shown
    assert "NodeResourcesFit 3" in shown


async def test_the_last_placements_lead_to_why(reader: Reader, page_model: PageModel) -> None:
    text = await reader.get("/health")
    links = re.findall(r'why\?namespace=([^&"]+)&amp;name=([^"]+)">', text)
    chosen = [decision.pod for decision in page_model.run.decisions if decision.node][:8]
    assert [f"{namespace}/{name}" for namespace, name in links] == chosen[::-1]


async def test_what_is_wrong_stands_first_and_a_leader_that_is_gone_does_not_lead(
    reader: Reader, page_model: PageModel
) -> None:
    degraded = made.resource(condition("Degraded", "True", "ConfigInvalid", "<b>no such plugin"))
    deployments = [made.OPERATOR, made.deployment(ready=0)]
    reader.cluster.answers.append(status_of(page_model, crs=[degraded], deployments=deployments, alive=False))
    text = await reader.read("/health")
    assert "Health FAILED" in text
    problem = text.index("Degraded for 60 min: ConfigInvalid: &lt;b&gt;no such plugin")
    assert problem < text.index("Replicas ready 0 of 1")
    assert f"Leader not known {made.POD} last renewed the Lease 1 s ago" in text
    for untrue in ("runs, as wanted", " fresh", "behaves as"):
        assert untrue not in text
    assert "Not known: the scheduler did not say." in text


@pytest.mark.parametrize(("missing", "words"), [(["leaders: list leases"], "may be seen"), ([], "is installed")])
async def test_who_sees_no_scheduler_is_not_told_that_one_failed(
    reader: Reader, page_model: PageModel, missing: list[str], words: str
) -> None:
    nothing = replace(status_of(page_model), instances=[], state=State.FAILED, not_shown=missing)
    reader.cluster.answers.append(nothing)
    text = await reader.read("/health")
    assert "FAILED" not in text
    assert f"No scheduler {words}" in text


async def test_a_cluster_that_does_not_answer_is_a_bad_gateway(reader: Reader) -> None:
    reader.cluster.answers.append(CommandError("https://api.example.com:6443: GET /version: connection refused"))
    text = await reader.read("/health", 502)
    assert "Bad Gateway https://api.example.com:6443: GET /version: connection refused" in text


TITLES = {"/decisions/999": (404, "Not Found"), "/nodes?by=colour": (400, "Bad Request")}


@pytest.mark.parametrize(("path", "status"), TITLES.items())
async def test_a_page_that_is_none_has_the_name_of_its_status(
    reader: Reader, path: str, status: tuple[int, str]
) -> None:
    text = await reader.get(path, status[0])
    assert f"<h1>{status[1]}</h1>" in text
    assert "simulated" not in text


async def test_the_foot_of_a_page_says_what_it_shows(reader: Reader) -> None:
    now = "This page shows what the API server and the running scheduler say"
    of_snapshot = "This page shows the snapshot, and decisions that are simulated on it"
    for path, foot in (
        ("/health", now),
        ("/why?namespace=shop&name=api-000", now),
        ("/why", "This page lists the pods of the snapshot; what it says of one, the running scheduler says"),
        ("/nodes", of_snapshot),
    ):
        assert foot in await reader.read(path)


# Why is it there ----------------------------------------------------------------------------------------------------


def rows(text: str) -> list[tuple[str, str]]:
    return re.findall(r'<a href="[^"]*">([^<]+)</a></th><td><span class="tag \w+">(\w+)</span>', text)


def pods_of(page_model: PageModel) -> dict[str, str]:
    """Every pod of the profile with its state."""
    waiting = {decision.pod: "waiting" for decision in page_model.run.decisions}
    nodes = [node.name for node in page_model.run.before.infos]
    names = page_model.configuration.scheduler_names
    placed = {pod.key for node in nodes for pod in page_model.pods_on(node) if pod.scheduler_name in names}
    return waiting | dict.fromkeys(placed, "placed")


async def test_the_list_has_the_pods_of_the_profiles_and_those_that_wait_first(
    reader: Reader, page_model: PageModel
) -> None:
    every = pods_of(page_model)
    seen: list[tuple[str, str]] = []
    for page in range(1, -(-len(every) // 100) + 1):
        seen += rows(await reader.get(f"/why?page={page}"))
    assert dict(seen) == every
    assert len(seen) == len(every)
    states = [state for _, state in seen]
    assert states == sorted(states, reverse=True)
    assert set(states) == {"waiting", "placed"}


async def test_the_list_is_searched_by_pod_or_node_in_a_namespace_and_a_state(
    reader: Reader, page_model: PageModel
) -> None:
    every = pods_of(page_model)
    of_shop = [key for key, state in every.items() if key.startswith("shop/") and state == "placed"]
    assert sorted(key for key, _ in rows(await reader.get("/why?in=shop&state=placed"))) == sorted(of_shop)
    (row,) = rows(await reader.get("/why?q=API-000"))
    assert row == ("search/api-000", "waiting")
    on_node = {key for key, _ in rows(await reader.get("/why?q=node-0003"))}
    assert on_node
    assert on_node <= {pod.key for pod in page_model.pods_on("node-0003")}
    assert "No pod passes this filter" in await reader.read("/why?q=nobody")
    await reader.get("/why?state=lost", 400)


async def test_a_pod_of_the_list_is_asked_about_and_the_way_back_keeps_the_filter(reader: Reader) -> None:
    listed = await reader.get("/why?q=api-000&in=search")
    (link,) = re.findall(r'<a href="([^"]*name=api-000[^"]*)">search/api-000', listed)
    text = await reader.get(link.replace("&amp;", "&").removeprefix(reader.site.root))
    assert "Last attempt: scheduled" in text
    assert 'href="' + f'{reader.site.root}/why?q=api-000&amp;in=search&amp;state=&amp;page=1">All pods' in text


async def test_a_pod_that_the_list_lacks_can_be_named(reader: Reader) -> None:
    text = await reader.get("/why")
    assert 'name="namespace"' in text.partition("A pod that is not in the list")[2]
    assert "unknown to scheduler-1" in (await reader.read("/why?namespace=shop&name=of-yesterday", 502))


# A new snapshot -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("back", "leads_to"),
    [("{root}/decisions?q=a%20b&page=2", "{root}/decisions?q=a%20b&page=2"), ("", "{root}/health")]
    + [(evil, "{root}/health") for evil in ("https://evil.example/", "//evil.example", "{root}\n/x", "{root}evil/")],
)
async def test_a_new_snapshot_leads_back_to_the_page_and_nowhere_else(
    reader: Reader, tmp_path: Path, back: str, leads_to: str
) -> None:
    root = reader.site.root
    reader.site.request = running_site(write_page_model(tmp_path, 3, 2)).request
    response = await reader.client.post(
        f"{root}/refresh",
        data={"back": back.format(root=root)},
        headers={"Sec-Fetch-Site": "same-origin"},
        allow_redirects=False,
    )
    assert (response.status, response.headers["Location"]) == (303, leads_to.format(root=root))
