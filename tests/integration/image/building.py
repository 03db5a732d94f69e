"""Images that are built twice, to show that both are the same."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

from tests.integration.image.podman import podman
from tests.support.rendering import ROOT


@contextlib.contextmanager
def built_twice(
    name: str, tool: str, *options: str, timeout: float | None = None, after_each: Callable[[], None] = lambda: None
) -> Iterator[list[str]]:
    """Two images of this checkout, made one after the other by a tool of `tools/`; yields their tags."""
    tags = [f"localhost/secondary-scheduler-test/{name}:{os.getpid()}-{number}" for number in (1, 2)]
    for tag in tags:
        command = [sys.executable, str(ROOT / "tools" / tool), *options, "--tag", tag]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        after_each()
    yield tags
    podman("rmi", "--force", *tags, check=False)


def identity(image: str) -> str:
    """Its configuration's and its manifest's digest."""
    return podman("image", "inspect", "--format", "{{.Id}} {{.Digest}}", image)
