"""The same commit gives the same image, which says what it consists of and is not large."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler import __version__
from tests.integration.image.building import built_twice, identity
from tests.integration.image.podman import compressed_size, podman
from tests.integration.image.test_image import python_says
from tests.support.rendering import ROOT
from tools.sbom import locked

# Two builds without a cache.
pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "localhost/secondary-scheduler-test/reproducible"
MAX_COMPRESSED = 120_000_000
SBOM = "/licenses/secondary-scheduler/sbom.cdx.json"


@pytest.fixture(scope="module")
def twice(images: dict[str, str]) -> Iterator[list[str]]:
    """Two images of this checkout, made one after the other; between them the files get other times."""

    def touch() -> None:
        Path(ROOT / "image/Containerfile").touch()
        Path(ROOT / "scheduler/__init__.py").touch()

    with built_twice("reproducible", "image.py", "--clean", timeout=800, after_each=touch) as tags:
        yield tags


def test_two_builds_have_the_same_digest(twice: list[str]) -> None:
    first, second = map(identity, twice)
    assert first == second


def test_a_base_made_twice_has_the_same_digest(images: dict[str, str]) -> None:
    tags = [f"{NAME}-base:{os.getpid()}-{number}" for number in (1, 2)]
    for tag in tags:
        subprocess.run([sys.executable, str(ROOT / "tools/base_image.py"), tag], timeout=600, check=True)
    first, second = (podman("image", "inspect", "--format", "{{.Digest}}", tag) for tag in tags)
    podman("rmi", "--force", *tags, check=False)
    assert first == second


def test_the_image_holds_its_bill_of_materials_with_hashes_and_licences(images: dict[str, str]) -> None:
    bill = json.loads(python_says(images["operator"], f"print(open({SBOM!r}).read())"))
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", __version__)
    assert {part["name"]: part["version"] for part in bill["components"]} == locked()
    without = [part["name"] for part in bill["components"] if not part.get("licenses") or not part.get("hashes")]
    assert without == []
    names = "from importlib.metadata import distributions; print(*{d.name for d in distributions(path=[%r])})"
    installed = python_says(images["operator"], names % "/opt/secondary-scheduler/dependencies").split()
    assert len(installed) == len(bill["components"])


def test_the_image_is_below_its_limit_when_compressed(images: dict[str, str]) -> None:
    assert 20_000_000 < compressed_size(images["operator"]) < MAX_COMPRESSED
