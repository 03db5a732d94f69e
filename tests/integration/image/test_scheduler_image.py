"""The image of the scheduler alone: a choice of the one recipe of the daemons' image."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from scheduler import __version__
from tests.integration.image.podman import compressed_size, podman, run_once, unusable
from tests.support.rendering import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1800)]

MAX_COMPRESSED = 100_000_000
HELD = """
import os
print(*os.listdir("/bin"), *os.listdir("/opt/secondary-scheduler/product"))
print(*os.listdir("/opt/secondary-scheduler/dependencies"))
"""


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    if reason := unusable():
        pytest.skip(reason)
    tag = f"localhost/secondary-scheduler-test/scheduler:{os.getpid()}"
    command = [sys.executable, str(ROOT / "tools/image.py"), "--part", "scheduler", "--tag", tag]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    yield tag
    podman("rmi", "--force", tag, check=False)


@pytest.mark.parametrize("user", ["65532:65532", "1000650000:0"])
def test_it_runs_as_any_user_without_privileges(image: str, user: str) -> None:
    done = run_once(image, "/bin/kube-scheduler", "--version", options=("--user", user))
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout


def test_it_holds_no_other_program_and_not_what_only_they_need(image: str) -> None:
    done = run_once(image, "-c", HELD, options=("--entrypoint", "/usr/local/bin/python3"))
    ours, dependencies = (set(line.split()) for line in done.stdout.splitlines())
    programs_and_packages = {name for name in ours if not name.endswith(".dist-info")}
    assert programs_and_packages == {"kube-scheduler", "scheduler"}
    assert {"aiohttp", "numpy"} <= dependencies
    assert dependencies & {"jinja2", "opentelemetry", "google", "kubernetes"} == set()


def test_it_is_below_its_limit_when_compressed(image: str) -> None:
    assert compressed_size(image) < MAX_COMPRESSED
