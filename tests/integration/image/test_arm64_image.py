"""The images for arm64, which this machine assembles and cannot run; qemu's emulation of a user's program can."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler import __version__
from tests.integration.image.building import built_twice, identity
from tests.integration.image.podman import podman, unusable

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

QEMU = shutil.which("qemu-aarch64-static")
ENTRY_POINTS = {
    "daemons": (
        "kube-scheduler",
        "secondary-scheduler-operator",
        "load-watcher",
        "rebalancer",
        "secondary-scheduler-page",
    ),
    "cli": ("secondary-scheduler",),
}
STARTS = {
    "daemons": (None, ["/bin/kube-scheduler", "--help"]),
    "cli": (["/bin/secondary-scheduler"], ["--help"]),
}


@pytest.fixture(scope="module", params=list(ENTRY_POINTS))
def part(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def twice(part: str) -> Iterator[list[str]]:
    if reason := unusable() or ("" if shutil.which("apt-get") else "there is no apt here"):
        pytest.skip(reason)
    if sys.version_info[:2] != (3, 11):
        pytest.skip("Debian's Python for arm64 is 3.11, and so has to be the one that compiles")
    with built_twice(f"arm64-{part}", "arm64_image.py", "--part", part) as tags:
        yield tags


def test_two_builds_have_the_same_digest(twice: list[str]) -> None:
    first, second = map(identity, twice)
    assert first == second


def test_the_image_says_that_it_is_for_arm64(twice: list[str]) -> None:
    (image,) = json.loads(podman("image", "inspect", twice[0]))
    assert (image["Os"], image["Architecture"]) == ("linux", "arm64")
    assert image["Config"]["User"] == "65532:65532"


def test_it_starts_what_the_image_for_amd64_starts(twice: list[str], part: str) -> None:
    (image,) = json.loads(podman("image", "inspect", twice[0]))
    config = image["Config"]
    assert (config.get("Entrypoint"), config["Cmd"]) == STARTS[part]
    assert config["Labels"]["org.opencontainers.image.version"] == __version__
    assert config["Labels"]["org.opencontainers.image.description"]


@pytest.mark.skipif(QEMU is None, reason="qemu-aarch64-static is not on PATH: apt-get install qemu-user-static")
def test_its_programs_say_their_version_under_emulation(twice: list[str], part: str, tmp_path: Path) -> None:
    # Beside its name, podman says that the image is for another machine.
    (container,) = re.findall(r"^[0-9a-f]{64}$", podman("create", twice[0], "/nothing"), re.MULTILINE)
    try:
        with subprocess.Popen(["podman", "export", container], stdout=subprocess.PIPE) as exporting:
            subprocess.run(["tar", "-x", "-C", str(tmp_path)], stdin=exporting.stdout, check=True)
    finally:
        podman("rm", "--force", container)
    for name in ENTRY_POINTS[part]:
        program = tmp_path / "usr/bin" / name
        interpreter, option = program.read_text().splitlines()[0].removeprefix("#!").split()
        command = [str(QEMU), "-L", str(tmp_path), str(tmp_path / interpreter.lstrip("/")), option, str(program)]
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        assert __version__ in done.stdout
