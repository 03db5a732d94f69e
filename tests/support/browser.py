"""Chromium, driven by Playwright, and the server of `ui` as a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Response

    from tests.support.views import View

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
"""The program; empty where there is none."""
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S+/(nodes|health)")


@contextlib.contextmanager
def served_pages(arguments: Sequence[str], directory: Path) -> Iterator[str]:
    """Run `secondary-scheduler ui` with these arguments; yields the address of its pages, without its first page.

    Args:
        arguments: of the command.
        directory: gets the command's stderr.
    """
    log = directory / "ui.err"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "secondary_scheduler.cli", "ui", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline().strip()
            assert _ADDRESS.fullmatch(line), f"{line!r}; {log.read_text()}"
            yield line.rpartition("/")[0]
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


@contextlib.contextmanager
def chromium(
    user_data: Path,
    *,
    width: int = 1280,
    height: int = 900,
    dark: bool = False,
    scripts: bool = True,
    touch: bool = False,
    any_certificate: bool = False,
) -> Iterator[BrowserContext]:
    """A browser with a profile of its own.

    Args:
        user_data: an empty directory.
        width, height: of the window, in pixels.
        dark: prefer a dark scheme.
        scripts: let pages run theirs.
        touch: a phone: fingers, and no pointer that hovers.
        any_certificate: take one that nobody knows.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            user_data,
            executable_path=CHROMIUM,
            args=list(_FLAGS),
            headless=True,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            has_touch=touch,
            is_mobile=touch,
            ignore_https_errors=any_certificate,
        )
        try:
            yield context
        finally:
            context.close()


def watched_page(context: BrowserContext) -> tuple[Page, list[str]]:
    """A page, and a list that gets what its console complains about, violations of its Content-Security-Policy too."""
    page = context.new_page()
    complaints: list[str] = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(f"{request.url}: {request.failure}"))
    return page, complaints


def open_view(page: Page, address: str, view: View) -> Response:
    """Go to a view, and return the answer to the request for its path."""
    response = page.goto(address + view.path)
    assert response is not None
    if view.first_row:
        page.locator("tbody a").first.click()
        page.wait_for_url(f"{address}{view.route.partition('{')[0]}*")
    for label, value in view.fields:
        page.get_by_label(label, exact=True).fill(value)
    if view.fields:
        page.locator("form button.primary").click()
        page.locator("#result").wait_for()
    return response
