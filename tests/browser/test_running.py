"""The views of a running cluster in a browser: health, why a pod is there, and how they stay as the cluster changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from playwright.sync_api import Page, expect

from secondary_scheduler.cli.errors import CommandError
from tests.support.browser import chromium, watched_page
from tests.support.runningpages import FakeCluster, status_of
from tests.unit.cli.status import installation as made
from tests.unit.cli.status.installation import condition

pytestmark = pytest.mark.browser
Changing = tuple[str, FakeCluster]
INTERVAL_MS = 5_000
LATER = "Read at 2026-11-24 12:00:07 UTC."


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A page whose console stays silent, and whose clock the test moves on."""
    with chromium(tmp_path / "profile") as context:
        page, complaints = watched_page(context)
        page.clock.install()
        yield page
        assert complaints == []


def change(cluster: FakeCluster, **answers: Any) -> None:
    """Let the cluster be another one, seven seconds later, in which two more pods were placed."""
    cluster.answers.append(replace(status_of(cluster.page_model, 10, **answers), time="2026-11-24T12:00:07Z"))


def test_the_first_view_says_how_the_scheduler_is(page: Page, changing: Changing) -> None:
    address, _ = changing
    page.goto(f"{address}/")
    expect(page).to_have_url(f"{address}/health")
    expect(page.get_by_role("heading", name="Health")).to_contain_text("ok")
    expect(page.get_by_role("definition").filter(has_text=made.POD)).to_be_visible()
    placed = page.get_by_role("table", name="The newest first").get_by_role("link", name="api-0")
    heights = [box["height"] for box in (link.bounding_box() for link in placed.all()) if box is not None]
    assert heights
    assert max(heights) < 30, "names stand on one line each"
    placed.first.click()
    expect(page.get_by_role("heading", name="Last attempt: scheduled")).to_be_visible()


def test_a_new_reading_keeps_scroll_focus_and_open_details(page: Page, changing: Changing) -> None:
    address, cluster = changing
    page.set_viewport_size({"width": 800, "height": 500})
    page.goto(f"{address}/health")
    page.get_by_text("8 conditions, as expected").click()
    placements = page.get_by_role("table", name="The newest first")
    placed = placements.get_by_role("link", name="api-0").nth(2)
    name = placed.inner_text()
    placed.focus()
    placed.evaluate("link => { link.mark = 1; }")
    placed.evaluate("link => link.scrollIntoView({ block: 'start' })")
    before = placed.bounding_box()
    change(cluster)
    page.clock.fast_forward(INTERVAL_MS)
    expect(page.locator("[data-live] > span")).to_have_text(LATER)
    expect(placements.get_by_role("row")).to_have_count(11)
    # Two rows have come before it.
    expect(placements.get_by_role("row").nth(5)).to_contain_text(name)
    expect(page.locator(":focus")).to_have_text(name)
    assert page.locator(":focus").evaluate("link => link.mark") == 1, "it is the element that was there before"
    after = page.locator(":focus").bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 3
    expect(page.get_by_role("table", name="Conditions")).to_be_visible()


def test_what_goes_wrong_comes_up_by_itself_and_a_pause_keeps_it_away(page: Page, changing: Changing) -> None:
    address, cluster = changing
    page.goto(f"{address}/health")
    page.get_by_role("button", name="Pause").click()
    change(cluster, crs=[made.resource(condition("Degraded", "True", "ConfigInvalid", "no such plugin"))])
    page.clock.run_for(3 * INTERVAL_MS)
    expect(page.get_by_role("heading", name="Health")).to_contain_text("ok")
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(INTERVAL_MS)
    expect(page.get_by_role("heading", name="Health")).to_contain_text("FAILED")
    expect(page.get_by_role("listitem").filter(has_text="Degraded for 60 min")).to_be_visible()


def test_a_cluster_that_falls_silent_leaves_what_was_read_and_says_so(tmp_path: Path, changing: Changing) -> None:
    address, cluster = changing
    with chromium(tmp_path / "profile") as context:
        page = context.new_page()
        page.clock.install()
        page.goto(f"{address}/health")
        cluster.answers.append(CommandError("connection refused"))
        page.clock.run_for(INTERVAL_MS)
        expect(page.get_by_role("alert")).to_have_text("Not read again: Connection refused")
        expect(page.get_by_role("definition").filter(has_text=made.POD)).to_be_visible()
        cluster.answers.pop()
        page.clock.run_for(INTERVAL_MS)
        expect(page.get_by_role("alert")).to_be_empty()


def test_from_the_list_of_pods_to_why_one_is_there_and_back(page: Page, changing: Changing) -> None:
    address, _ = changing
    page.goto(f"{address}/health")
    page.get_by_role("link", name="Why is it there").click()
    expect(page.get_by_role("heading", name="Why is it there?")).to_be_visible()
    page.get_by_label("Namespace").first.select_option("search")
    expect(page.locator("tbody th a").first).to_contain_text("search/")
    page.get_by_label("Pod or node").fill("api-0")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("heading", name="pods of")).to_be_visible()
    page.locator("tbody th a").first.click()
    expect(page.get_by_role("heading", name="Last attempt")).to_be_visible()
    expect(page.locator("footer")).to_contain_text("what the API server and the running scheduler say")
    page.get_by_role("link", name="All pods").click()
    expect(page.get_by_label("Pod or node")).to_have_value("api-0")
    expect(page.get_by_label("Namespace").first).to_have_value("search")


def test_a_new_snapshot_comes_in_place(page: Page, changing: Changing) -> None:
    address, _ = changing
    page.set_viewport_size({"width": 800, "height": 500})
    page.goto(f"{address}/why?in=shop")
    page.evaluate("scrollTo(0, 400)")
    page.evaluate("window.mark = 1")
    with page.expect_response(f"{address}/refresh"):
        page.locator("header.site button").dispatch_event("click")
    expect(page.locator("header.site button")).to_have_text("Take a new snapshot")
    expect(page).to_have_url(f"{address}/why?in=shop")
    assert page.evaluate("window.mark") == 1, "it is the page that was there before"
    assert page.evaluate("scrollY") == 400
    expect(page.get_by_label("Namespace").first).to_have_value("shop")
