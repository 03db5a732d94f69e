"""The documentation as a site: built strictly, every link leads somewhere, and no other host is asked."""

from __future__ import annotations

import json
import os
import posixpath
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tools.site_hooks import for_the_site

ROOT = Path(__file__).resolve().parents[3]


class Page(HTMLParser):
    """What a page names: links, what a browser loads, and anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if "src" in values or (tag == "link" and values.get("rel") in ("stylesheet", "icon")):
            self.loaded.append(values.get("src") or values.get("href", ""))
        elif tag == "a" and "href" in values:
            self.links.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, ""), done.stdout + done.stderr
    return directory


@pytest.fixture(scope="module")
def built(site: Path) -> dict[str, Page]:
    """Pages by their path."""
    # The page for what is not there names everything from the root.
    files = [file for file in site.rglob("*.html") if file.name != "404.html"]
    return {str(file.relative_to(site)): Page(file.read_text(encoding="utf-8")) for file in files}


@pytest.mark.slow
def test_every_link_leads_to_a_page_and_an_anchor_of_it(site: Path, built: dict[str, Page]) -> None:
    dead = []
    for name, page in built.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            joined = posixpath.join(posixpath.dirname(name), unquote(address.path)) if address.path else name
            target = posixpath.normpath(joined)
            if not (site / target).exists():
                dead.append(f"{name}: {link}")
            elif address.fragment and target in built and unquote(address.fragment) not in built[target].anchors:
                dead.append(f"{name}: {link} has no such anchor")
    assert dead == []
    assert sum(len(page.links) for page in built.values()) > 1000


@pytest.mark.slow
def test_a_browser_loads_nothing_from_other_hosts(site: Path, built: dict[str, Page]) -> None:
    loaded = {(name, source) for name, page in built.items() for source in page.loaded}
    assert {source for _, source in loaded if urlsplit(source).netloc} == set()
    missing = {
        source for name, source in loaded if not (site / posixpath.dirname(name) / urlsplit(source).path).exists()
    }
    assert missing == set()


@pytest.mark.slow
def test_the_search_index_has_every_page(site: Path, built: dict[str, Page]) -> None:
    index = json.loads((site / "search/search_index.json").read_text())
    assert {entry["location"].partition("#")[0] for entry in index["docs"]} >= set(built)


def test_the_navigation_names_every_page_once() -> None:
    def named(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        parts = entry if isinstance(entry, list) else list(entry.values()) if isinstance(entry, dict) else []
        return [page for part in parts for page in named(part)]

    navigation = named(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    pages = sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))
    assert sorted(navigation) == pages


def test_a_link_out_of_docs_goes_to_the_repository_or_becomes_text() -> None:
    text = "see [SECURITY](../SECURITY.md#x), [image](image.md), [a](https://example.com)"
    address = "https://git.example.com/x/blob/main"
    assert for_the_site(text, "index.md", address) == text.replace("../SECURITY.md", f"{address}/SECURITY.md")
    assert for_the_site(text, "index.md") == text.replace("[SECURITY](../SECURITY.md#x)", "SECURITY")


def test_a_link_that_has_the_name_of_a_file_gets_the_heading_of_its_page() -> None:
    text = "([scope.md](../scope.md), [image.md](../image.md#arm64), [so](../scope.md))"
    expected = text.replace("[scope.md]", "[Is it the right tool?]")
    assert for_the_site(text, "guides/remove.md") == expected


def test_words_for_the_tests_and_code_are_not_links() -> None:
    fence = "```console needs=registry\n$ echo [a](../b.md)\n```\n"
    assert for_the_site(fence, "index.md") == "```console\n$ echo [a](../b.md)\n```\n"
