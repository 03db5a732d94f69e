"""The pages of `ui` as somebody with a browser meets them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.browser import chromium, open_view, watched_page
from tests.support.views import HOSTILE_LABEL, OVER_TIME, VIEWS

pytestmark = pytest.mark.browser
EVERY_VIEW = (*VIEWS, HOSTILE_LABEL)
OF_RECORDINGS = (*(view for view in EVERY_VIEW if not view.running), OVER_TIME)
# The least contrast of text by WCAG AA; the second for text of 24 px, or bold of 18.66 px.
NORMAL, LARGE = 4.5, 3.0
CONTRASTS = """
() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r, g, b].map((v) => linear(v / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
      if (a > 0) { return [r, g, b]; }
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    if (!walker.currentNode.textContent.trim() || !box.width || parseFloat(style.fontSize) < 6) { continue; }
    if (element.closest(".hidden, .skip, option, script")) { continue; }
    const [a, b] = [light(parse(style.color)), light(behind(element))].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    found.push([(a + 0.05) / (b + 0.05), large, walker.currentNode.textContent.trim().slice(0, 40)]);
  }
  return found;
}
"""


@pytest.fixture(params=["light", "dark"])
def browser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrowserContext]:
    with chromium(tmp_path / "profile", dark=request.param == "dark") as context:
        yield context


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A page whose console stays silent."""
    with chromium(tmp_path / "profile") as context:
        page, complaints = watched_page(context)
        yield page
        assert complaints == []


def test_no_view_makes_the_console_complain_or_violates_the_policy(page: Page, running_address: str) -> None:
    for view in EVERY_VIEW:
        assert open_view(page, running_address, view).status == 200
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("document.styleSheets.length") == 1
        assert page.evaluate("window.alerted") is None


def test_every_text_has_enough_contrast_in_light_and_dark(browser: BrowserContext, running_address: str) -> None:
    page = browser.new_page()
    for view in EVERY_VIEW:
        open_view(page, running_address, view)
        measured = page.evaluate(CONTRASTS)
        assert len(measured) > 20
        assert [(view.name, *each) for each in measured if each[0] < (LARGE if each[1] else NORMAL)] == []


def test_dark_is_dark_and_light_is_light(tmp_path: Path, address: str) -> None:
    backgrounds = []
    for dark in (False, True):
        with chromium(tmp_path / f"profile-{dark}", dark=dark) as context:
            page = context.new_page()
            page.goto(f"{address}/nodes")
            text = page.evaluate("getComputedStyle(document.body).backgroundColor")
            backgrounds.append(sum(map(int, re.findall(r"\d+", text)[:3])))
    assert backgrounds[0] > 600
    assert backgrounds[1] < 150


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_scrolls_no_page_sideways(tmp_path: Path, running_address: str, width: int) -> None:
    with chromium(tmp_path / "profile", width=width, height=800, touch=True) as context:
        page = context.new_page()
        for view in EVERY_VIEW:
            open_view(page, running_address, view)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view.name


def test_a_finger_meets_no_hint_for_pointers_and_cells_that_it_can_hit(tmp_path: Path, large_address: str) -> None:
    with chromium(tmp_path / "profile", width=390, height=844, touch=True) as context:
        page = context.new_page()
        page.goto(f"{large_address}/nodes")
        expect(page.locator("#readout")).to_be_hidden()
        cell = page.locator(".cells a").first.bounding_box()
        assert cell is not None
        assert min(cell["width"], cell["height"]) >= 24


def test_the_node_of_a_score_stays_in_sight_on_a_phone(tmp_path: Path, address: str) -> None:
    with chromium(tmp_path / "profile", width=390, height=844, touch=True) as context:
        page = context.new_page()
        page.goto(f"{address}/decisions/1")
        page.locator(".scroll").first.evaluate("box => box.scrollTo(10000, 0)")
        expect(page.locator("table.matrix tbody th a").first).to_be_in_viewport(ratio=1)
        expect(page.locator("table.matrix thead th").last).to_be_in_viewport(ratio=1)


def test_the_keyboard_reaches_the_map_as_one_stop_and_walks_it_with_arrows(page: Page, address: str) -> None:
    page.goto(f"{address}/nodes?group=none&order=name")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    stops: list[str] = []
    while len(stops) < 60:
        page.keyboard.press("Tab")
        stop = page.evaluate("document.activeElement.textContent.trim()")
        if stop == "Skip to the content":
            break
        stops.append(stop)
    assert "Nodes" in stops
    assert [stop.split()[0] for stop in stops if stop.startswith("node-")] == ["node-0000"]
    page.locator(".cells a").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(":focus")).to_contain_text("node-0001")
    expect(page.locator("#readout")).to_contain_text("node-0001")
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.getBoundingClientRect().left")
    assert below == page.locator(".cells a").nth(1).evaluate("cell => cell.getBoundingClientRect().left")
    page.keyboard.press("ArrowUp")
    expect(page.locator(":focus")).to_contain_text("node-0001")
    page.keyboard.press("End")
    expect(page.locator(":focus")).to_contain_text("node-0059")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("node-0000")


def test_the_focus_is_visible_wherever_the_keyboard_goes(page: Page, address: str) -> None:
    page.goto(f"{address}/decisions")
    for _ in range(15):
        page.keyboard.press("Tab")
        width = page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")
        assert width >= 2, page.evaluate("document.activeElement.outerHTML")


def test_choosing_a_group_shows_it_at_once(page: Page, address: str) -> None:
    page.goto(f"{address}/nodes")
    page.get_by_label("Group by label").select_option("example.com/pool")
    expect(page.get_by_role("heading", name="batch")).to_be_visible()
    page.get_by_role("link", name="Memory", exact=True).click()
    expect(page.locator("main .head p")).to_contain_text("of memory")
    # The group that was chosen stays.
    expect(page.get_by_role("heading", name="batch")).to_be_visible()


def test_from_the_list_of_decisions_to_the_node_of_one(page: Page, address: str) -> None:
    page.goto(f"{address}/decisions")
    page.get_by_label("Result").select_option("placed")
    expect(page.locator("tbody .tag:not(.placed)")).to_have_count(0)
    page.locator("tbody th a").first.click()
    chosen = page.locator("tr.chosen th a")
    name = chosen.inner_text()
    chosen.click()
    expect(page.locator("h1")).to_have_text(name)
    expect(page.get_by_role("heading", name="Would be placed here")).to_be_visible()


def test_another_weight_moves_pods_and_the_form_keeps_it(page: Page, address: str) -> None:
    page.goto(f"{address}/what-if")
    page.get_by_label("TargetLoadPacking", exact=True).fill("1")
    page.get_by_role("button", name="Decide again").click()
    expect(page.get_by_role("heading", name=re.compile(r"^\d+ pods of 60 would fare differently$"))).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="TargetLoadPacking weight 10 -> 1")).to_be_visible()
    expect(page.get_by_label(re.compile(r"^TargetLoadPacking \(now 10\)"))).to_have_value("1")


def test_a_form_leads_to_this_server_only(tmp_path: Path, address: str) -> None:
    with chromium(tmp_path / "profile") as context:
        page = context.new_page()
        page.goto(f"{address}/what-if")
        violated = page.evaluate(
            """async (target) => {
                const form = document.createElement("form");
                form.method = "post";
                form.action = target;
                document.body.append(form);
                return new Promise((done) => {
                    document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
                    form.submit();
                });
            }""",
            f"{address}/what-if".replace("127.0.0.1", "localhost"),
        )
    assert violated == "form-action"


def test_every_view_works_without_scripts(tmp_path: Path, address: str) -> None:
    with chromium(tmp_path / "profile", scripts=False) as context:
        page = context.new_page()
        page.goto(f"{address}/nodes")
        page.get_by_label("Group by label").select_option("example.com/pool")
        page.get_by_role("button", name="Group").click()
        expect(page.get_by_role("heading", name="general")).to_be_visible()
        page.locator(".cells a").first.click()
        expect(page.get_by_role("heading", name="Labels")).to_be_visible()


def test_a_screen_reader_gets_names_for_regions_tables_and_cells(page: Page, address: str) -> None:
    page.goto(f"{address}/nodes")
    expect(page.get_by_role("navigation", name="Views")).to_be_visible()
    expect(page.get_by_role("main")).to_be_visible()
    expect(page.get_by_role("link", name=re.compile(r"^node-0000 \d+ %$"))).to_have_count(1)
    expect(page.get_by_role("group", name="Resource")).to_be_visible()
    page.goto(f"{address}/decisions/1")
    expect(page.get_by_role("table", name=re.compile("Weighted scores per plugin"))).to_be_visible()
    page.goto(f"{address}/decisions")
    expect(page.get_by_role("search")).to_be_visible()


def test_the_map_of_five_thousand_nodes_answers_pointer_and_keys(page: Page, large_address: str) -> None:
    page.goto(f"{large_address}/nodes")
    cells = page.locator(".cells a")
    expect(cells).to_have_count(5000)
    cells.nth(1234).scroll_into_view_if_needed()
    cells.nth(1234).hover()
    name = cells.nth(1234).inner_text()
    expect(page.locator("#readout")).to_have_text(name)
    cells.nth(2000).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    focused = page.locator(":focus")
    expect(page.locator("#readout")).to_have_text(focused.inner_text())
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(re.compile(r"node-\d{4}"))
    page.go_back()
    page.get_by_role("link", name="Requested").click()
    expect(page.locator("main .head p")).to_contain_text("by requests of CPU")


# A recording ---------------------------------------------------------------------------------------------------------


def test_no_view_of_a_recording_complains_and_a_phone_scrolls_none_sideways(
    tmp_path: Path, recorded_address: str
) -> None:
    with chromium(tmp_path / "profile", width=320, height=800, touch=True) as context:
        page, complaints = watched_page(context)
        for view in OF_RECORDINGS:
            assert open_view(page, f"{recorded_address}/at/60", view).status == 200
            expect(page.get_by_label("Moment of the recording", exact=True).last).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, view.name
            assert page.evaluate("window.alerted") is None
        assert complaints == []


def test_every_text_of_a_recording_has_enough_contrast(browser: BrowserContext, recorded_address: str) -> None:
    page = browser.new_page()
    open_view(page, recorded_address, OVER_TIME)
    measured = page.evaluate(CONTRASTS)
    assert len(measured) > 20
    assert [each for each in measured if each[0] < (LARGE if each[1] else NORMAL)] == []


def test_the_slider_leads_to_the_moment_where_it_rests_and_keeps_focus_and_choice(
    page: Page, recorded_address: str
) -> None:
    page.goto(f"{recorded_address}/at/30/nodes?by=requested")
    slider = page.get_by_role("slider", name="Moment of the recording")
    slider.focus()
    before = page.locator("output strong").inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(r"/at/32/nodes\?by=requested"))
    expect(slider).to_be_focused()
    expect(slider).to_have_value("32")
    assert page.locator("output strong").inner_text() > before
    page.get_by_role("link", name="Queue").click()
    page.wait_for_url(re.compile(r"/at/32/queue"))


def test_the_moment_is_chosen_without_scripts_too(tmp_path: Path, recorded_address: str) -> None:
    with chromium(tmp_path / "profile", scripts=False) as context:
        page = context.new_page()
        page.goto(f"{recorded_address}/at/30/decisions?result=placed")
        page.get_by_role("link", name="Later").click()
        expect(page).to_have_url(re.compile(r"/at/31/decisions\?result=placed"))
        page.goto(f"{recorded_address}/at/30/over-time")
        page.locator("tbody th a").first.click()
        expect(page).to_have_url(re.compile(r"/at/0/nodes"))
