"""Takes pictures of the pages of `ui`.

`python tools/screenshots.py DIRECTORY` writes every view in light, in dark and on a phone, and those of a large and of
an empty cluster; without a directory, the pictures of docs/ui.md and of the page in the cluster are updated. Needs
Chromium (`make browser` installs it).
"""

from __future__ import annotations

import contextlib
import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.browser import chromium, open_view
from tests.support.pagemodels import write_page_model
from tests.support.recordedpagemodels import write_recorded_page_model
from tests.support.runningpages import recorded_site, running_site, served_site
from tests.support.servedpage import TOKEN, served_page
from tests.support.sharedpagemodels import crowded_page_model
from tests.support.views import OVER_TIME, VIEWS, View

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
MAX_BYTES = 150_000
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class Look:
    """How somebody looks at a page: a window's size in pixels, a scheme, and whether it is a phone."""

    width: int
    height: int
    dark: bool = False
    phone: bool = False


LOOKS = {
    "light": Look(1200, 760),
    "dark": Look(1200, 760, dark=True),
    "phone": Look(390, 1000, phone=True),
}
DOCUMENTED = {
    "health": ("light", "dark", "phone"),
    "nodes": ("light", "dark", "phone"),
    "node": ("light",),
    "queue": ("light", "dark", "phone"),
    "decisions": ("dark",),
    "decision": ("light", "dark", "phone"),
    "decision-unschedulable": ("light",),
    "configuration": ("dark",),
    "what-if-changed": ("light", "dark", "phone"),
    "why": ("light", "dark", "phone"),
    "why-pod": ("light",),
    "over-time": ("light", "dark", "phone"),
}
"""Looks of the pictures in docs/ui.md, by the name of the view."""


def picture_name(view: str, look: str) -> str:
    """The file of a picture."""
    return f"ui-{view}-{look}.png"


def take_all(target: Path) -> None:
    """Write every view in every look, whole; and what differs in a large and in an empty cluster."""
    target.mkdir(parents=True, exist_ok=True)
    views = {view.name: view for view in VIEWS}
    for cluster, nodes, pending, names in (
        ("small", 60, 60, tuple(views)),
        ("large", 5000, 120, ("nodes",)),
        ("idle", 12, 0, ("queue", "decisions", "what-if")),
        ("empty", 0, 0, ("nodes", "queue", "decisions", "why")),
    ):
        with _served(nodes, pending) as address:
            for look in LOOKS:
                with _browser(look) as context:
                    for name in names:
                        _take(
                            context,
                            address,
                            views[name],
                            target / f"{cluster}-{name}-{look}.png",
                            cluster != "large",
                        )


def take_documented() -> None:
    """Write the pictures of the documentation, and remove those that are none any more.

    Raises:
        SystemExit: one is too large.
    """
    IMAGES.mkdir(exist_ok=True)
    for file in IMAGES.glob("ui-*.png"):
        file.unlink()
    with _served(60, 60) as address:
        _take_documented(address, VIEWS)
    with _served_recording(60, 80) as address:
        _take_documented(address, (OVER_TIME,))
    _take_page_in_the_cluster()


def _take_page_in_the_cluster() -> None:
    """The page in the cluster: its form, and what a viewer of one namespace sees."""
    look = LOOKS["light"]
    with (
        served_page(crowded_page_model(60, 60)) as address,
        tempfile.TemporaryDirectory() as profile,
        chromium(Path(profile), width=look.width, height=look.height, any_certificate=True) as context,
    ):
        page = context.new_page()
        page.goto(f"{address}/login")
        _keep(page, IMAGES / "page-login.png")
        page.get_by_label("Token", exact=True).fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.goto(f"{address}/in/shop/decisions")
        _keep(page, IMAGES / "page-decisions.png")


def _keep(page: Page, file: Path) -> None:
    page.screenshot(path=file)
    file.write_bytes(recompressed(file.read_bytes()))
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
    if file.stat().st_size > MAX_BYTES:
        raise SystemExit(f"{file}: larger than {MAX_BYTES:,} bytes")


def _take_documented(address: str, views: Sequence[View]) -> None:
    for look in LOOKS:
        with _browser(look) as context:
            for view in views:
                if look not in DOCUMENTED.get(view.name, ()):
                    continue
                file = IMAGES / picture_name(view.name, look)
                page = context.new_page()
                open_view(page, address, view)
                _keep(page, file)
                page.close()


def recompressed(png: bytes) -> bytes:
    """The same picture, compressed as well as zlib can."""
    header, pixels = pixels_of(png)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def pixels_of(png: bytes) -> tuple[bytes, bytes]:
    """The header of a PNG file, and its pixels, filtered as they are there."""
    chunks: list[tuple[bytes, bytes]] = []
    at = len(_SIGNATURE)
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        chunks.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + size]))
        at += size + 12
    header = next(data for kind, data in chunks if kind == b"IHDR")
    return header, zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))


@contextlib.contextmanager
def _served(nodes: int, pending: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as text, contextlib.chdir(text):
        # By name: a directory that is another one each time is on the page.
        files = {name: Path(file.name) for name, file in write_page_model(Path(text), nodes, pending).items()}
        with served_site(running_site(files)) as address:
            yield address


@contextlib.contextmanager
def _served_recording(nodes: int, arriving: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as text, contextlib.chdir(text):
        files = {name: Path(file.name) for name, file in write_recorded_page_model(Path(text), nodes, arriving).items()}
        with served_site(recorded_site(files)) as address:
            yield address


@contextlib.contextmanager
def _browser(name: str) -> Iterator[BrowserContext]:
    look = LOOKS[name]
    with (
        tempfile.TemporaryDirectory() as profile,
        chromium(Path(profile), width=look.width, height=look.height, dark=look.dark, touch=look.phone) as context,
    ):
        yield context


def _take(context: BrowserContext, address: str, view: View, file: Path, whole: bool) -> None:
    page = context.new_page()
    open_view(page, address, view)
    page.screenshot(path=file, full_page=whole)
    page.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        take_all(Path(sys.argv[1]).absolute())
    else:
        take_documented()
