"""The documentation as a site, in a browser: its search, the button that copies commands, and a narrow window."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.support.browser import chromium
from tests.support.environments import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

GUIDE = "guides/install-on-kubernetes.html"
PATIENCE_MS = 120_000


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the class names it
        """Nothing of it is for a test's output."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the site, served as the pages say."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, timeout=500, check=True)
    handler = functools.partial(Quiet, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def context(tmp_path: Path) -> Iterator[BrowserContext]:
    with chromium(tmp_path / "profile") as opened:
        opened.set_default_timeout(PATIENCE_MS)
        yield opened


def test_search_finds_a_page_by_a_word_of_its_text(site: str, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(f"{site}/{GUIDE}")
    page.locator(".md-search__input").fill("LoadVariationRiskBalancing")
    expect(page.locator(".md-search-result__item").first).to_be_visible(timeout=PATIENCE_MS)


def test_the_button_copies_commands_without_prompts_and_output(site: str, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{site}/{GUIDE}")
    block = page.locator(".highlight", has_text="pulumi stack init prod")
    block.locator("button[data-clipboard-target]").click()
    page.get_by_text("Copied to clipboard").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert [line for line in copied.splitlines() if line.strip()][:2] == [
        "pulumi stack init prod",
        "export PROMETHEUS_CA=$PWD/prometheus-ca.crt",
    ]


@pytest.mark.parametrize("path", ["index.html", GUIDE, "stack-settings.html", "metrics.html", "benchmarks.html"])
def test_a_phone_shows_a_page_without_scrolling_sideways(site: str, context: BrowserContext, path: str) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site}/{path}")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
