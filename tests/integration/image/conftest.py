"""The image, built by `make image`'s own tool, and a stack that names it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from scheduler import __version__
from tests.integration.image.podman import unusable
from tests.support.rendering import ROOT

IMAGES = {name: f"localhost/secondary-scheduler/{name}:{__version__}" for name in ("kube-scheduler", "operator")}


@pytest.fixture(scope="session")
def images() -> dict[str, str]:
    """Names of the images by entry point; built, unless `make image` has just done so."""
    built = os.environ.get("SECONDARY_SCHEDULER_IMAGES") == "built"
    if reason := unusable():
        if built:
            pytest.fail(f"make image: {reason}")
        pytest.skip(reason)
    if built:
        return IMAGES
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/image.py")], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return IMAGES
