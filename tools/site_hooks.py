"""Hooks of mkdocs: the pages are written for a repository, where links may lead out of `docs/`.

Such a link becomes one to the repository (`repo_url` of mkdocs.yml, or SITE_REPOSITORY), or plain text where no
address is known. One with the name of a page's file as its text gets the page's heading. A fence's words for the tests
(`console needs=registry`) are dropped.
"""

from __future__ import annotations

import functools
import os
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PICTURES = "benchmarks/results"
COPIED = "images/benchmarks"
"""Where pictures stand in the repository, and where below `docs/` the site has them."""
_PICTURE = re.compile(rf"(!\[[^\]]*\]\()(?:\.\./)+{PICTURES}/(?P<name>[\w.-]+\.svg)\)")
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s:]+)\)")
_FENCE = re.compile(r"^(?P<fence> *```\w+) .*$", re.MULTILINE)
_BLOCK = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs with all files: adds the pictures that stand elsewhere in the repository."""
    for picture in sorted((ROOT / PICTURES).glob("*.svg")):
        files.append(File.generated(config, f"{COPIED}/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Called by mkdocs with each page."""
    repository = os.environ.get("SITE_REPOSITORY") or config.repo_url or ""
    return for_the_site(markdown, page.file.src_uri, repository)


def for_the_site(markdown: str, source: str, repository: str = "") -> str:
    """Return a page's text with links and fences for the site.

    Args:
        markdown: the text.
        source: the page's path below `docs/`.
        repository: address of the repository's files, such as https://git.example.com/x/blob/main; empty: unknown.
    """

    def link(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target:
            return match[0]
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), target))
        if path.startswith("docs/") and (ROOT / path).suffix in (".md", ".png", ".svg"):
            named = match["text"].endswith(".md") and not anchor and (ROOT / path).is_file()
            return f"[{heading_of(ROOT / path)}]({match['target']})" if named else match[0]
        if not repository:
            return match["text"]
        return f"[{match['text']}]({repository.rstrip('/')}/{path}{'#' + anchor if anchor else ''})"

    below = posixpath.relpath(f"docs/{COPIED}", posixpath.dirname(f"docs/{source}"))
    markdown = _PICTURE.sub(rf"\g<1>{below}/\g<name>)", markdown)
    return _FENCE.sub(r"\g<fence>", _outside_code(markdown, link))


@functools.cache
def heading_of(page: Path) -> str:
    """Return the first heading of a page."""
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _outside_code(markdown: str, link: Callable[[re.Match[str]], str]) -> str:
    """Replace links, but not in blocks of code."""
    parts, end = [], 0
    for code in _BLOCK.finditer(markdown):
        parts += [_LINK.sub(link, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(link, markdown[end:])])
