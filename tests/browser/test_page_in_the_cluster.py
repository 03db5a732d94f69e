"""The page in the cluster as somebody with a browser meets it: the form, a namespace, and the way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from secondary_scheduler.page.site import COOKIE
from tests.support.browser import chromium, watched_page
from tests.support.servedpage import TOKEN, served_page
from tests.support.sharedpagemodels import crowded_page_model

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served_page(crowded_page_model(60, 60)) as address:
        yield address


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A page whose console stays silent."""
    with chromium(tmp_path / "profile", any_certificate=True) as context:
        page, complaints = watched_page(context)
        yield page
        # What a refused login answers with is no complaint of the page.
        assert [line for line in complaints if "401" not in line] == []


def test_a_viewer_logs_in_names_a_namespace_and_logs_out(page: Page, address: str) -> None:
    page.goto(f"{address}/nodes")
    expect(page).to_have_url(f"{address}/login")
    page.get_by_label("Token", exact=True).fill("no-token")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not known")
    page.get_by_label("Token", exact=True).fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{address}/nodes")
    expect(page.get_by_role("heading", name="Heat map")).to_be_visible()
    expect(page.get_by_role("link", name="Configuration")).to_have_count(0)
    (cookie,) = page.context.cookies()
    assert cookie["name"] == COOKIE
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    assert page.evaluate("document.cookie") == ""
    page.get_by_label("Pods of the namespaces").fill("shop")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(f"{address}/in/shop/decisions")
    expect(page.locator("tbody th a").first).to_contain_text("shop/")
    assert {text.partition("/")[0] for text in page.locator("tbody th a").all_inner_texts()} == {"shop"}
    page.locator("tbody th a").first.click()
    expect(page.locator("h1")).to_contain_text("shop/")
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{address}/login")
    page.goto(f"{address}/in/shop/decisions")
    expect(page).to_have_url(f"{address}/login")
