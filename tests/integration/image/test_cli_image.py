"""The image of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scheduler import __version__
from tests.integration.image.building import built_twice, identity
from tests.integration.image.podman import run_once, unusable
from tests.support.rendering import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1800)]

CONFIGURATION = "/opt/secondary-scheduler/config.yaml"


@pytest.fixture(scope="module")
def twice() -> Iterator[list[str]]:
    """Two images of this checkout, made one after the other without a cache."""
    if reason := unusable():
        pytest.skip(reason)
    with built_twice("cli", "image.py", "--part", "cli", "--clean") as tags:
        yield tags


def test_two_builds_have_the_same_digest(twice: list[str]) -> None:
    first, second = map(identity, twice)
    assert first == second


@pytest.mark.parametrize("user", ["65532:65532", "1000650000:0"])
def test_it_runs_as_any_user_without_privileges(twice: list[str], user: str) -> None:
    done = run_once(twice[0], "--version", options=("--user", user))
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout


def test_it_judges_a_mounted_configuration(twice: list[str]) -> None:
    example = ROOT / "examples/configurations"
    (file, *_) = sorted(example.glob("*.yaml"))
    done = run_once(twice[0], "validate", "/c.yaml", options=("--volume", f"{file}:/c.yaml:ro"))
    assert done.returncode == 0, done.stdout + done.stderr
