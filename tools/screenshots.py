"""Takes pictures of the pages of `ui`.

`python tools/screenshots.py DIRECTORY` writes every view in light, in dark and on a phone; without a directory, those
of docs/ui.md are written anew into docs/images. Needs Chromium (`make browser` installs it).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.browser import chromium, served_pages
from tests.support.scenes import write_scene

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 150_000
VIEWS = {
    "nodes": "/nodes?when=before",
    "nodes-by-pool": "/nodes?group=example.com%2Fpool&by=estimated",
    "node": "/node?name=node-0003",
    "queue": "/queue",
    "decisions": "/decisions",
    "decision": "/decisions/1",
    "decision-unschedulable": "/decisions?result=unschedulable",
    "configuration": "/configuration",
    "what-if": "/what-if",
    "problem": "/nodes?by=colour",
}
"""Path by name; for the list of one result, its first decision is opened."""
DOCUMENTED = {"ui-nodes": ("large", "/nodes", False), "ui-decision": ("small", "/decisions/1", True)}
"""File of docs/images: scene, path, whether dark."""
LOOKS = {"light": (1280, 900, False), "dark": (1280, 900, True), "phone": (390, 844, False)}


def take_all(target: Path) -> None:
    """Write every view in every look, of a small and of a large cluster."""
    target.mkdir(parents=True, exist_ok=True)
    for scene, nodes, pending in (("small", 60, 60), ("large", 5000, 120)):
        with tempfile.TemporaryDirectory() as text:
            directory = Path(text)
            with served_pages(_arguments(directory, nodes, pending), directory) as address:
                for look, (width, height, dark) in LOOKS.items():
                    with chromium(directory / look, width=width, height=height, dark=dark) as context:
                        page = context.new_page()
                        for name, path in VIEWS.items() if scene == "small" else [("nodes", "/nodes")]:
                            page.goto(address + path)
                            if "result=" in path:
                                page.locator("tbody a").first.click()
                            page.screenshot(path=target / f"{scene}-{name}-{look}.png", full_page=scene == "small")


def take_documented() -> None:
    """Write the pictures of the documentation, and check their sizes."""
    IMAGES.mkdir(exist_ok=True)
    for name, (scene, path, dark) in DOCUMENTED.items():
        nodes, pending = (600, 60) if scene == "large" else (60, 60)
        with tempfile.TemporaryDirectory() as text:
            directory = Path(text)
            with (
                served_pages(_arguments(directory, nodes, pending), directory) as address,
                chromium(directory / "profile", width=1200, height=760, dark=dark) as context,
            ):
                page = context.new_page()
                page.goto(address + path)
                file = IMAGES / f"{name}.png"
                page.screenshot(path=file)
                print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
                if file.stat().st_size > MOST_BYTES:
                    raise SystemExit(f"{file}: larger than {MOST_BYTES:,} bytes")


def _arguments(directory: Path, nodes: int, pending: int) -> list[str]:
    files = write_scene(directory, nodes, pending)
    return ["--snapshot", str(files["snapshot"]), "--config", str(files["config"]), "--old", str(files["old"])]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        take_all(Path(sys.argv[1]))
    else:
        take_documented()
