"""The pages of `ui` on a small snapshot, through the whole application."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.cli.ui.app import Site, application
from secondary_scheduler.cli.ui.reading import read_page_model
from secondary_scheduler.simulation.deciding import GATED, PLACED, RESULTS, UNSCHEDULABLE
from secondary_scheduler.views.pagemodels import PageModel
from tests.support.pagemodels import HOSTILE, write_page_model
from tests.support.views import HOSTILE_LABEL, VIEWS, Pages

NODES, PENDING = 30, 40
OF_FILES = tuple(view for view in (*VIEWS, HOSTILE_LABEL) if not view.running)


@pytest.fixture(scope="module")
def page_model(tmp_path_factory: pytest.TempPathFactory) -> PageModel:
    files = write_page_model(tmp_path_factory.mktemp("page_model"), NODES, PENDING, hostile=True)
    return read_page_model(SnapshotRequest([str(files["snapshot"])], files["config"], files["old"]), lambda line: None)


@pytest.fixture
async def pages(page_model: PageModel) -> AsyncIterator[Pages]:
    site = Site(page_model)
    async with TestClient(TestServer(application(site), host="127.0.0.1")) as client:
        yield Pages(client, site)


class _Elements(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def visible(text: str) -> str:
    """What a reader sees of a page, in one line."""
    return " ".join(re.sub(r"<[^>]*>", " ", text.partition("<main")[2].replace("<wbr>", "")).split())


# Nodes --------------------------------------------------------------------------------------------------------------


async def test_the_heat_map_has_a_link_for_each_node_with_name_and_share(pages: Pages) -> None:
    text = await pages.get("/nodes")
    cells = re.findall(r'<a class="h(\w+)" href="node\?name=(node-\d+)">(node-\d+) <b>([^<]*)</b></a>', text)
    assert len(cells) == NODES
    for level, target, name, share in cells:
        assert target == name
        assert (level == "x") == (share == "not known")
        if level != "x":
            assert int(level) == min(10, int(share.removesuffix(" %")) // 10)
    # Every 23rd node has no load: it is said, and not shown as 0.
    assert [name for level, _, name, _ in cells if level == "x"] == ["node-0022"]


async def test_the_order_of_the_cells_is_the_one_chosen(pages: Pages) -> None:
    for order, key in (("highest", lambda share: -share), ("lowest", lambda share: share)):
        text = await pages.get(f"/nodes?group=none&order={order}")
        shares = [int(share) for share in re.findall(r"<b>(\d+) %</b>", text)]
        assert shares == sorted(shares, key=key)
        assert text.rindex("not known</b>") > text.rindex(" %</b>")
    names = re.findall(r'href="node\?name=(node-\d+)"', await pages.get("/nodes?group=none&order=name"))
    assert names == sorted(names)


@pytest.mark.parametrize(("order", "mark"), [("highest", "↑"), ("lowest", "↓")])
async def test_a_line_stands_at_the_target_in_each_group(pages: Pages, order: str, mark: str) -> None:
    text = await pages.get(f"/nodes?by=measured&order={order}")
    groups = text.partition("data-heat")[2].split('<div class="cells">')[1:]
    assert len(groups) == 3
    for group in groups:
        first, line, second = group.partition(f"{mark} above the target of 50 %")
        assert line
        above, below = (first, second) if order == "highest" else (second, first)
        shares = [[int(share) for share in re.findall(r"<b>(\d+) %</b>", side)] for side in (above, below)]
        assert min(shares[0], default=100) >= 50
        assert max(shares[1], default=0) <= 50
    number = sum(int(share) > 50 for share in re.findall(r"<b>(\d+) %</b>", text))
    assert abs(int(re.findall(r"Above the target of 50 %</dt><dd>(\d+)", text)[0]) - number) <= 1


@pytest.mark.parametrize("query", ["by=requested", "resource=memory", "order=name"])
async def test_there_is_no_line_where_the_target_is_of_something_else(pages: Pages, query: str) -> None:
    assert "↑ above the target" not in await pages.get(f"/nodes?{query}")


async def test_nodes_are_grouped_by_the_zone_unless_another_label_is_chosen(pages: Pages) -> None:
    assert [f"eu-west-1{letter}" in await pages.get("/nodes") for letter in "abc"] == [True] * 3
    text = visible(await pages.get("/nodes?group=example.com%2Fpool"))
    assert re.search(r"batch \d+ nodes, mean \d+ % .* general \d+ nodes, mean .* memory \d+ nodes", text)
    # A label that is different on each node groups nothing.
    assert 'value="kubernetes.io/hostname"' not in await pages.get("/nodes")


async def test_requests_grow_by_the_pods_that_would_be_placed(page_model: PageModel, pages: Pages) -> None:
    texts = [await pages.get(f"/nodes?by=requested&group=none&order=name&when={when}") for when in ("before", "after")]
    shares = [dict(re.findall(r"(node-\d+) <b>(\d+) %", text)) for text in texts]
    grown = {name for name, share in shares[0].items() if int(shares[1][name]) > int(share)}
    placed_on = {each.node for each in page_model.run.decisions if each.result == PLACED}
    assert grown
    assert grown <= placed_on


async def test_a_node_shows_its_labels_taints_load_and_pods(page_model: PageModel, pages: Pages) -> None:
    text = visible(await pages.get("/node?name=node-0006"))
    assert "example.com/pool=batch" in text
    assert "batch=only:NoSchedule" in text
    assert "The load was measured 0 s before" in text
    assert all(pod.key in text for pod in page_model.pods_on("node-0006"))


# Decisions ----------------------------------------------------------------------------------------------------------


async def test_the_list_has_every_decision_with_its_result(page_model: PageModel, pages: Pages) -> None:
    text = await pages.get("/decisions")
    rows = re.findall(r'<a href="[^"]*/decisions/(\d+)">([^<]+)</a></th><td><span class="tag (\w+)">', text)
    expected = [(str(each.number), each.pod, each.result) for each in page_model.run.decisions]
    assert [(number, name, result) for number, name, result in rows] == expected
    assert {result for _, _, result in rows} == {PLACED, UNSCHEDULABLE, GATED}


@pytest.mark.parametrize("result", RESULTS)
async def test_the_filter_shows_the_decisions_with_a_result_only(
    page_model: PageModel, pages: Pages, result: str
) -> None:
    text = await pages.get(f"/decisions?result={result}")
    number = sum(each.result == result for each in page_model.run.decisions)
    assert len(re.findall(r"<tr><td", text)) == number
    assert f"{number} decision" in visible(text)


async def test_the_filter_takes_text_namespace_and_plugin_together(page_model: PageModel, pages: Pages) -> None:
    text = await pages.get("/decisions?q=API-0&namespace=shop&plugin=NodeAffinity")
    names = re.findall(r'/decisions/\d+">([^<]+)</a></th>', text)
    expected = [
        each.pod
        for each in page_model.run.decisions
        if each.namespace == "shop"
        and each.details is not None
        and any(group.plugin == "NodeAffinity" for group in each.details.rejected)
    ]
    assert expected
    assert names == expected


async def test_a_placed_pod_shows_all_scores_of_the_nodes_that_fit(page_model: PageModel, pages: Pages) -> None:
    decision = next(each for each in page_model.run.decisions if each.result == PLACED)
    assert decision.details is not None
    text = visible(await pages.get(f"/decisions/{decision.number}"))
    chosen = next(node for node in decision.details.nodes if node.chosen)
    scores = " ".join(f"{each.weighted} ( {each.raw} → {each.normalized} )" for each in chosen.scores.values())
    shown = text.replace("(", "( ").replace(")", " )")
    assert f"{decision.node} chosen {chosen.total} {scores}" in shown
    assert len(decision.details.nodes) == decision.feasible_nodes
    assert all(node.name in text for node in decision.details.nodes)


async def test_the_chosen_node_has_the_best_total_of_the_matrix(page_model: PageModel) -> None:
    placed = [each for each in page_model.run.decisions if each.result == PLACED and each.details is not None]
    assert placed
    for decision in placed:
        assert decision.details is not None
        (chosen,) = (node for node in decision.details.nodes if node.chosen)
        assert chosen.name == decision.node
        assert chosen.total == max(node.total for node in decision.details.nodes)


async def test_an_unschedulable_pod_shows_who_rejected_how_many_nodes_and_what_is_missing(
    page_model: PageModel, pages: Pages
) -> None:
    decision = next(each for each in page_model.run.decisions if each.requests and each.requests["cpu"] == 40_000)
    text = visible(await pages.get(f"/decisions/{decision.number}"))
    assert decision.result == UNSCHEDULABLE
    assert re.search(r"NodeResourcesFit Insufficient cpu \d+ node-", text)
    assert "Nothing but room is missing on" in text
    assert decision.message.replace("'", "&#39;") in text


# Queue --------------------------------------------------------------------------------------------------------------


async def test_the_queue_has_each_pod_once_in_the_queue_of_its_result(page_model: PageModel, pages: Pages) -> None:
    text = await pages.get("/queue")
    for result in (PLACED, UNSCHEDULABLE, GATED):
        section = text.partition(f'<section class="card" id="{result}"')[2].partition("</section>")[0]
        names = re.findall(r'/decisions/\d+">([^<]+)</a></th>', section)
        assert names == [each.pod for each in page_model.run.decisions if each.result == result]
    assert 'id="undecided"' not in text


async def test_the_queue_counts_reasons_by_pods_and_nodes(page_model: PageModel, pages: Pages) -> None:
    text = visible(await pages.get("/queue"))
    pods = [each for each in page_model.run.decisions if each.result == UNSCHEDULABLE]
    tainted = sum(
        any(group.plugin == "TaintToleration" for group in each.details.rejected)
        for each in pods
        if each.details is not None
    )
    nodes = sum(
        group.nodes
        for each in pods
        if each.details is not None
        for group in each.details.rejected
        if group.plugin == "TaintToleration"
    )
    assert f"node(s) had untolerated taint(s) {tainted} TaintToleration {nodes}" in text
    assert "waiting for scheduling gates: [example.com/quota] 4 – –" in text
    assert "The oldest waits for 13 min 20 s" in text


async def test_the_queue_says_how_many_pods_other_schedulers_have(tmp_path: Path) -> None:
    files = write_page_model(tmp_path, 3, 6)
    pages_of_others = Site(read_page_model(SnapshotRequest([str(files["snapshot"])]), lambda line: None))
    async with TestClient(TestServer(application(pages_of_others), host="127.0.0.1")) as client:
        text = visible(await Pages(client, pages_of_others).get("/queue"))
    assert "Of other schedulers 6" in text
    assert "secondary-scheduler: 6" in text


# Configuration ------------------------------------------------------------------------------------------------------


async def test_the_configuration_shows_plugins_weights_and_args_in_effect(pages: Pages) -> None:
    text = visible(await pages.get("/configuration"))
    assert re.search(r"TargetLoadPacking 10 ", text)
    assert (
        "NodeResourcesBalancedAllocation" not in text.partition("Profile secondary-scheduler")[2].partition("Args")[0]
    )
    assert "targetUtilization 50" in text
    # Defaults that the file does not have.
    assert "scoringStrategy.type LeastAllocated" in text
    assert "podInitialBackoffSeconds 1" in text


async def test_the_configuration_shows_what_differs_from_another_file(pages: Pages) -> None:
    text = visible(await pages.get("/configuration"))
    assert "profile secondary-scheduler: TargetLoadPacking weight 3 -&gt; 10" in text
    assert "profile secondary-scheduler: TargetLoadPacking targetUtilization 40 -&gt; 50" in text


async def test_a_token_in_the_configuration_is_shown_nowhere(tmp_path: Path) -> None:
    files = write_page_model(tmp_path, 3, 2)
    written = files["config"].read_text().replace("type: Prometheus,", "type: Prometheus, token: secret-canary,")
    assert "secret-canary" in written
    files["config"].write_text(written)
    site = Site(
        read_page_model(SnapshotRequest([str(files["snapshot"])], files["config"], files["old"]), lambda line: None)
    )
    async with TestClient(TestServer(application(site), host="127.0.0.1")) as client:
        for path in ("/configuration", "/nodes", "/decisions/1"):
            assert "secret-canary" not in await Pages(client, site).get(path)


# What cannot be -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/nodes?by=colour", 400, "By: one of measured, estimated, requested"),
        ("/nodes?group=no-such-label", 400, "Group: one of"),
        ("/node?name=nobody", 404, "The snapshot has no node nobody"),
        ("/decisions/0", 404, "There is no decision 0; the last one is 40"),
        ("/decisions/99999999999999", 404, "There is no decision"),
        ("/decisions?page=-1", 400, "Page: a number from 1"),
        (f"/decisions?q={'x' * 301}", 400, "Q: at most 300 characters"),
        ("/static/../app.py", 404, "Not Found"),
        ("/static/passwd", 404, "There is no file passwd"),
        ("/nowhere", 404, "Not Found"),
    ],
)
async def test_a_page_that_cannot_be_says_why(pages: Pages, path: str, status: int, message: str) -> None:
    text = visible(await pages.get(path, status))
    assert message in text


# Hostile names ------------------------------------------------------------------------------------------------------


async def test_no_page_has_markup_of_a_label_or_name_nor_a_script_or_style_inside(
    page_model: PageModel, pages: Pages
) -> None:
    for view in OF_FILES:
        text = await pages.open(view)
        assert "<script>alert" not in text, view
        for tag, attributes in _Elements(text).tags:
            assert tag != "img", view
            assert "style" not in attributes, view
            assert not [name for name in attributes if name.startswith("on")], view
            if tag == "script":
                assert attributes["src"] == f"{pages.site.root}/static/ui.js"
    assert "&lt;script&gt;alert(2)&lt;/script&gt;{{7*7}}" in await pages.get("/node?name=node-0001")


async def test_a_hostile_label_can_be_grouped_by(pages: Pages) -> None:
    assert "&#34;&gt;&lt;img src=x" in await pages.get("/nodes?group=example.com%2Fevil")
    # What the address says comes back as text, too.
    text = await pages.get("/decisions?q=%22%3E%3Cscript%3E")
    assert '"><script>' not in text
    assert "&#34;&gt;&lt;script&gt;" in text


def test_the_hostile_label_is_hostile() -> None:
    assert "<script>" in HOSTILE


# Structure ----------------------------------------------------------------------------------------------------------


async def test_every_page_has_landmarks_one_heading_and_captions(pages: Pages) -> None:
    for view in OF_FILES:
        tags = [tag for tag, _ in _Elements(await pages.open(view)).tags]
        for landmark in ("header", "nav", "main", "footer", "h1"):
            assert landmark in tags, (view, landmark)
        assert tags.count("h1") == 1, view
        assert tags.count("caption") == tags.count("table"), view


async def test_five_thousand_nodes_make_a_page_of_less_than_a_megabyte(tmp_path: Path) -> None:
    files = write_page_model(tmp_path, 5000, 3)
    site = Site(read_page_model(SnapshotRequest([str(files["snapshot"])], files["config"]), lambda line: None))
    async with TestClient(TestServer(application(site), host="127.0.0.1")) as client:
        pages = Pages(client, site)
        text = await pages.get("/nodes")
    assert text.count('href="node?name=node-') == 5000
    assert len(text) < 1_000_000
