"""The pages of `ui` on a recording: each shows a moment, which is part of its URL."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.cli.ui.app import Site, application
from secondary_scheduler.cli.ui.reading import RecordingPageModels, read_recording_page_models
from secondary_scheduler.simulation.deciding import PLACED, UNSCHEDULABLE
from secondary_scheduler.views.runs import Limits
from tests.support.pagemodels import HOSTILE
from tests.support.recordedpagemodels import write_recorded_page_model
from tests.support.recordings import START, MadeRecording, bound
from tests.support.simulating import CONFIGURATION, node, pod
from tests.support.views import HOSTILE_LABEL, OVER_TIME, VIEWS, Pages

NODES, ARRIVING = 20, 40
MIDDLE, LAST = 30, 60
OF_RECORDINGS = tuple(view for view in (*VIEWS, HOSTILE_LABEL, OVER_TIME) if not view.running)


def read(
    directory: Path, recording: MadeRecording, limits: Limits | None = None, end: float = 60
) -> RecordingPageModels:
    (directory / "config.yaml").write_text(CONFIGURATION)
    file = recording.write(directory / "cluster.recording", end=end)
    request = SnapshotRequest([], directory / "config.yaml", recording=str(file))
    return read_recording_page_models(request, lambda line: None, *([limits] if limits is not None else []))


@pytest.fixture(scope="module")
def page_models(tmp_path_factory: pytest.TempPathFactory) -> RecordingPageModels:
    files = write_recorded_page_model(tmp_path_factory.mktemp("recorded"), NODES, ARRIVING, hostile=True)
    request = SnapshotRequest([], files["config"], files["old"], recording=str(files["recording"]))
    return read_recording_page_models(request, lambda line: None)


@pytest.fixture
async def pages(page_models: RecordingPageModels) -> AsyncIterator[Pages]:
    site = Site(page_models.at(page_models.last), page_models=page_models)
    async with TestClient(TestServer(application(site), host="127.0.0.1")) as client:
        yield Pages(client, site)


def visible(text: str) -> str:
    """What a reader sees of a page, in one line."""
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", text.partition("<main")[2].replace("<wbr>", "")).split()))


# The moment -----------------------------------------------------------------------------------------------------------


async def test_every_view_is_there_at_every_moment_and_its_links_stay_at_it(pages: Pages) -> None:
    for moment in (0, MIDDLE, LAST):
        for view in OF_RECORDINGS:
            if view.first_row or (moment == 0 and "{number}" in view.route):
                continue
            text = await pages.get(f"/at/{moment}{view.path}")
            assert HOSTILE not in text
            root = f"{pages.site.root}/at/{moment}/"
            paths = re.findall(r'(?:href|action|src)="(/[^"]*)"', text)
            elsewhere = {path for path in paths if not path.startswith((root, f"{pages.site.root}/static/"))}
            # The table of moments leads to the others.
            assert elsewhere == set() or view is OVER_TIME


async def test_a_page_without_a_moment_is_about_the_last_one(pages: Pages) -> None:
    assert await pages.get("/decisions") == await pages.get(f"/at/{LAST}/decisions")
    start = await pages.client.get(f"{pages.site.root}/", allow_redirects=False)
    assert start.headers["Location"] == f"{pages.site.root}/nodes"


async def test_the_form_leads_to_the_same_page_at_another_moment_and_keeps_what_was_chosen(pages: Pages) -> None:
    path = f"{pages.site.root}/at/{MIDDLE}/nodes?by=requested&group=example.com%2Fpool"
    text = await (await pages.client.get(path)).text()
    action = re.search(r'<form class="card moment" action="([^"]*)#moment"', text)
    assert action is not None
    form = text.partition('<form class="card moment"')[2].partition("</form>")[0]
    kept = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form))
    assert kept == {"by": "requested", "group": "example.com/pool"}
    response = await pages.client.get(action[1], params={**kept, "at": "7"}, allow_redirects=False)
    assert response.status == 303
    assert response.headers["Location"] == path.replace(f"/at/{MIDDLE}/", "/at/7/")


async def test_the_first_moment_has_none_before_it_and_the_last_none_after(pages: Pages) -> None:
    first, last = [await pages.get(f"/at/{moment}/queue") for moment in (0, LAST)]
    assert ("Earlier</a>" in first, "Later</a>" in first) == (False, True)
    assert ("Earlier</a>" in last, "Later</a>" in last) == (True, False)
    assert "2026-11-25" in visible(first)
    assert "0 s after its beginning" in visible(first)
    assert "10 min after its beginning" in visible(last)


@pytest.mark.parametrize("moment", ["61", "-1", "x", "99999"])
async def test_a_moment_that_there_is_not_is_refused(pages: Pages, moment: str) -> None:
    assert "a number from 0 to 60" in await pages.get(f"/at/{moment}/nodes", 400)
    assert "a number from 0 to 60" in await pages.get(f"/nodes?at={moment}", 400)


async def test_a_page_that_is_not_there_keeps_the_slider(pages: Pages) -> None:
    text = await pages.get(f"/at/0/decisions/{ARRIVING}", 404)
    assert f"There is no decision {ARRIVING} at this moment; the last one is 1" in visible(text)
    assert 'name="at"' in text


# What is shown --------------------------------------------------------------------------------------------------------


async def test_the_nodes_are_as_recorded_or_as_replayed(page_models: RecordingPageModels, pages: Pages) -> None:
    counts = {}
    for when in ("before", "after"):
        text = await pages.get(f"/at/{LAST}/nodes?by=requested&group=none&order=name&when={when}")
        counts[when] = re.findall(r"(node-\d+) <b>(\d+) %", text)
    assert counts["before"] != counts["after"]
    frame = page_models.course.frames[LAST]
    assert sum(frame.recorded.columns.pods) != sum(frame.columns.pods)
    assert "where the replay has them" in await pages.get(f"/at/{LAST}/nodes")
    assert "as recorded" in visible(await pages.get("/nodes?when=before"))


async def test_decisions_come_one_after_the_other(page_models: RecordingPageModels, pages: Pages) -> None:
    numbers = []
    for moment in (0, 10, MIDDLE, LAST):
        text = await pages.get(f"/at/{moment}/decisions")
        match = re.search(r'<h2 id="list">(\d+) decisions?</h2>', text)
        assert match is not None
        numbers.append(int(match[1]))
        assert all(
            each.moment <= page_models.course.frames[moment].time for each in page_models.at(moment).run.decisions
        )
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == (1, ARRIVING)


async def test_the_queue_holds_who_waits_then(page_models: RecordingPageModels, pages: Pages) -> None:
    for moment in (MIDDLE, LAST):
        waiting = {each.pod for each in page_models.course.frames[moment].waiting}
        assert waiting
        text = await pages.get(f"/at/{moment}/queue")
        assert set(re.findall(r"/decisions/\d+\">([^<]*)</a>", text)) == waiting
        assert "Active" not in visible(text)


async def test_a_node_has_the_pods_that_the_replay_has_there(page_models: RecordingPageModels, pages: Pages) -> None:
    page_model = page_models.at(LAST)
    placed = next(
        each for each in page_model.run.decisions if each.result == PLACED and each.node in ("node-0001", "node-0004")
    )
    text = visible(await pages.get(f"/at/{LAST}/node?name={placed.node}"))
    assert "Placed here by the replay" in text
    assert placed.pod in text
    assert re.search(r"recorded: \d+ %", text)
    assert "Placed here by the replay" not in visible(await pages.get(f"/at/0/node?name={placed.node}"))


async def test_a_decision_says_when_it_was_made_and_where_the_recording_has_the_pod(
    page_models: RecordingPageModels, pages: Pages
) -> None:
    for decision in page_models.at(LAST).run.decisions[:6]:
        text = visible(await pages.get(f"/at/{LAST}/decisions/{decision.number}"))
        assert ", attempt 1" in text
        recorded = page_models.course.recorded_nodes.get(decision.pod)
        assert (f"In the recording on {recorded}" if recorded else "In the recording on no node") in text


async def test_a_pod_that_waited_shows_its_earlier_attempts(tmp_path: Path) -> None:
    first, second = pod("first", cpu="3"), pod("second", cpu="3")
    recording = MadeRecording().there(node("n1")).added(5, first).added(10, second).deleted(30, first)
    page_models = read(tmp_path, recording)
    fates = [
        [(each.pod.partition("/")[2], each.result) for each in page_models.at(moment).run.decisions]
        for moment in (7, 20, 40)
    ]
    assert fates == [
        [("first", PLACED)],
        [("first", PLACED), ("second", UNSCHEDULABLE)],
        [("first", PLACED), ("second", PLACED)],
    ]
    assert [len(page_models.at(moment).run.queue or ()) for moment in (7, 20, 40)] == [0, 1, 0]
    assert [each.waiting for each in page_models.at(20).run.queue or ()] == [pytest.approx(10)]
    site = Site(page_models.at(page_models.last), page_models=page_models)
    async with TestClient(TestServer(application(site), host="127.0.0.1")) as client:
        text = visible(await Pages(client, site).get("/at/40/decisions/2"))
    assert re.search(r"attempt [2-9] .* Earlier attempts .* unschedulable .* Insufficient cpu", text)


async def test_over_time_has_a_row_and_a_link_for_each_moment(page_models: RecordingPageModels, pages: Pages) -> None:
    text = await pages.get(f"/at/{MIDDLE}/over-time")
    assert re.findall(r"/at/(\d+)/nodes\">20", text) == [str(number) for number in range(LAST + 1)]
    assert text.count("<polyline") == 6
    waiting = len(page_models.course.frames[LAST].waiting)
    assert re.search(rf">{waiting}</td>", text.rpartition("<tr")[2])


async def test_another_weight_replays_the_recording_until_the_moment(
    page_models: RecordingPageModels, pages: Pages
) -> None:
    numbers = []
    for moment in (10, LAST):
        form = {"profile": "secondary-scheduler", "weight:TargetLoadPacking": "1"}
        address = f"{pages.site.root}/at/{moment}/what-if"
        origin = f"http://127.0.0.1:{pages.client.port}"
        response = await pages.client.post(address, data=form, headers={"Origin": origin})
        text = visible(await response.text())
        assert response.status == 200, text
        match = re.search(r"(?:(\d+) pods? of \d+|None of \d+ pods?) would fare|No pod was compared", text)
        assert match is not None, text
        numbers.append(int(match[1] or 0))
    assert numbers[1] > 0
    assert numbers[0] <= numbers[1]
    assert numbers[1] <= ARRIVING


# How it was made ------------------------------------------------------------------------------------------------------


def test_frames_do_not_change_what_the_replay_decides(tmp_path: Path) -> None:
    arriving = [pod(f"p{number}", cpu="1500m") for number in range(6)]
    recording = MadeRecording().there(node("n1"), node("n2"))
    for number, item in enumerate(arriving):
        recording.added(3 * number, item)
    recording.deleted(40, arriving[0], arriving[1])
    page_models = read(tmp_path, recording)
    whole = {each.pod: each.node for each in page_models.at(page_models.last).run.decisions}
    for index in (0, 5, 30, page_models.last):
        page_model = page_models.at(index)
        again = page_model.decide(page_model.configuration, Limits(0, 60), lambda: False)
        assert [(each.pod, each.node) for each in again.decisions] == [
            (each.pod, each.node) for each in page_model.run.decisions
        ]
    assert sorted(node or "" for node in whole.values()) == ["n1"] * 3 + ["n2"] * 3


def test_what_was_recorded_is_counted_by_scheduler(tmp_path: Path) -> None:
    other = {**pod("other"), "spec": {**pod("other")["spec"], "schedulerName": "another"}}
    ours = pod("ours", cpu="1")
    recording = MadeRecording().there(node("n1"), other).added(5, ours)
    recording.modified(20, bound(ours, "n1", 20), bound(other, "n1", 20))
    page_models = read(tmp_path, recording)
    waiting = [dict(page_models.course.frames[moment].recorded.waiting) for moment in (0, 10, 30)]
    assert waiting == [{"another": 1}, {"another": 1, ours["spec"]["schedulerName"]: 1}, {}]
    assert [page_models.at(moment).others.total() for moment in (0, 10, 30)] == [1, 1, 0]
    assert [sum(page_models.course.frames[moment].recorded.columns.pods) for moment in (10, 30)] == [0, 2]


def test_where_time_is_short_the_moments_until_then_are_kept_and_it_is_said(tmp_path: Path) -> None:
    recording = MadeRecording().there(node("n1")).added(5, pod("a")).added(30, pod("b"))
    page_models = read(tmp_path, recording, Limits(explained=0, total=0))
    assert not page_models.course.complete
    assert len(page_models.course.frames) == 1
    assert any("were not enough to replay everything" in line for line in page_models.remarks)
    assert page_models.at(0).time == START


def test_gaps_and_a_recording_without_pods_of_a_profile_are_said(tmp_path: Path) -> None:
    recording = MadeRecording().there(node("n1")).note(5, "LOST", "Pod", "gone").note(9, "RELISTED", "Pod")
    page_models = read(tmp_path, recording)
    assert any(line.startswith("Pod: listed again") for line in page_models.remarks)
    assert any("waited or arrived in the recording" in line for line in page_models.remarks)


def test_a_recording_of_a_moment_has_one_step(tmp_path: Path) -> None:
    page_models = read(tmp_path, MadeRecording().there(node("n1")), end=0)
    assert len(page_models.course.frames) == 2
    assert len(page_models.at(page_models.last).run.after) == 1
