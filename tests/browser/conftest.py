"""A served cluster of 60 nodes, and one of 5,000."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import CHROMIUM, served_pages
from tests.support.pagemodels import write_page_model
from tests.support.recordedpagemodels import write_recorded_page_model
from tests.support.runningpages import FakeCluster, running_site, served_site


@pytest.fixture(scope="session", autouse=True)
def _browser() -> None:
    if not CHROMIUM:
        pytest.fail("Chromium is missing; `make browser` installs it")


def _served(factory: pytest.TempPathFactory, nodes: int, pending: int) -> Iterator[str]:
    directory = factory.mktemp("page_model")
    files = write_page_model(directory, nodes, pending, hostile=True)
    arguments = ["--snapshot", str(files["snapshot"]), "--config", str(files["config"]), "--old", str(files["old"])]
    with served_pages(arguments, directory) as address:
        yield address


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from _served(tmp_path_factory, 60, 60)


@pytest.fixture(scope="session")
def running_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of pages that have every view, also the one of the running scheduler, which is a fake."""
    files = write_page_model(tmp_path_factory.mktemp("page_model"), 60, 60, hostile=True)
    with served_site(running_site(files)) as address:
        yield address


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[tuple[str, FakeCluster]]:
    """Pages of a fake cluster, and that cluster, to be changed."""
    site = running_site(write_page_model(tmp_path, 60, 60))
    assert isinstance(site.live, FakeCluster)
    with served_site(site) as address:
        yield address, site.live


@pytest.fixture(scope="session")
def large_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from _served(tmp_path_factory, 5000, 20)


@pytest.fixture(scope="session")
def recorded_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("recorded")
    files = write_recorded_page_model(directory, 60, 60, hostile=True)
    arguments = ["--recording", str(files["recording"]), "--config", str(files["config"])]
    with served_pages(arguments, directory) as address:
        yield address
