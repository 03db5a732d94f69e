"""The list of views, which tests, pictures and documentation share, is the list of pages that the application has."""

from __future__ import annotations

import re

import pytest
from aiohttp.test_utils import make_mocked_request

from secondary_scheduler.cli.ui.app import Site, application
from secondary_scheduler.views import rendering
from tests.support.pagemodels import write_page_model
from tests.support.runningpages import running_site
from tests.support.views import OVER_TIME, VIEWS
from tools import screenshots

NO_VIEWS = {"/", "/static/{name}"}
"""A redirect, and files."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return running_site(write_page_model(tmp_path_factory.mktemp("page_model"), 3, 2))


def test_every_page_that_can_be_read_is_in_the_list_of_views(site: Site) -> None:
    resources = {route.resource for route in application(site).router.routes() if route.method == "GET"}
    routes = {resource.canonical.removeprefix(site.root) for resource in resources if resource is not None}
    assert routes - NO_VIEWS == {view.route for view in VIEWS}
    assert routes >= NO_VIEWS


async def test_the_path_of_each_view_leads_to_its_route(site: Site) -> None:
    router = application(site).router
    for view in VIEWS:
        if view.first_row:
            continue  # its path is that of the table
        match = await router.resolve(make_mocked_request("GET", site.root + view.path))
        assert match.route.resource is not None, view
        assert match.route.resource.canonical == site.root + view.route
    assert len({view.name for view in VIEWS}) == len(VIEWS)


def test_the_documentation_shows_each_view_and_the_pictures_that_the_script_takes() -> None:
    views = {view.name: view for view in (*VIEWS, OVER_TIME)}
    assert {views[name].route for name in screenshots.DOCUMENTED} == {view.route for view in views.values()}
    names = {screenshots.picture_name(view, look) for view, looks in screenshots.DOCUMENTED.items() for look in looks}
    files = {file.name: file for file in screenshots.IMAGES.glob("ui-*.png")}
    page = (screenshots.ROOT / "docs" / "ui.md").read_text(encoding="utf-8")
    assert set(files) == names
    assert set(re.findall(r"\(images/(ui-[^)]*\.png)\)", page)) == names
    assert [name for name, file in files.items() if file.stat().st_size > screenshots.MAX_BYTES] == []


def test_a_picture_that_is_recompressed_has_the_same_pixels() -> None:
    file = next(screenshots.IMAGES.glob("ui-*.png"))
    once = screenshots.recompressed(file.read_bytes())
    assert screenshots.recompressed(once) == once
    assert screenshots.pixels_of(once) == screenshots.pixels_of(file.read_bytes())


def test_a_name_of_a_field_breaks_between_words_and_is_text_whatever_it_holds() -> None:
    parts = rendering.environment().get_template("parts.html")
    assert parts.module.field_name("scoringStrategy.resources[0].name") == (
        "scoring<wbr>Strategy.<wbr>resources[0].<wbr>name"
    )
    assert parts.module.field_name("labels.<img src=x>&") == "labels.<wbr>&lt;img src=x&gt;&amp;"
