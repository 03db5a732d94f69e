"""What a package index would get: built, checked by twine, and installed in empty environments of each Python here.

The environments are filled from the index that pip is configured for, as a reader's are.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler import __version__
from tests.support.environments import ROOT

# Each environment fetches some forty packages.
pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(1200)]

TOOL = ROOT / "tools/wheels.py"
PYTHONS = ("3.11", "3.12", "3.13")
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
  plugins:
    score:
      enabled: [{name: TargetLoadPacking}]
  pluginConfig:
  - name: TargetLoadPacking
    args: {targetUtilization: 50, metricProvider: {type: Prometheus, address: "https://prometheus.example.com"}}
"""


def interpreters() -> Iterator[tuple[str, Path]]:
    """Each Python that this machine has of those that are supported."""
    uv = Path(sys.executable).parent / "uv"
    for version in PYTHONS:
        command = [uv, "python", "find", "--no-project", "--system", "--offline", version]
        pyenv = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if pyenv:
            yield version, pyenv[-1]
        elif done.returncode == 0:
            yield version, Path(done.stdout.strip())


FOUND = dict(interpreters())


def run(*command: str | Path, cwd: Path = ROOT, code: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == code, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the tool builds, by name."""
    output = tmp_path_factory.mktemp("dist")
    run(sys.executable, TOOL, "--output", output, "--sums")
    return {file.name: file for file in output.iterdir()}


def test_each_distribution_has_a_wheel_and_an_sdist_and_its_sum(files: dict[str, Path]) -> None:
    expected = {
        f"{name}-{__version__}{end}"
        for name in ("secondary_scheduler", "secondary_scheduler_pulumi")
        for end in ("-py3-none-any.whl", ".tar.gz")
    }
    assert set(files) == {*expected, "SHA256SUMS"}
    sums = dict(reversed(line.split("  ")) for line in files["SHA256SUMS"].read_text().splitlines())
    assert sums == {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in expected}


def test_two_builds_of_one_commit_are_the_same_bytes(files: dict[str, Path], tmp_path: Path) -> None:
    run(sys.executable, TOOL, "--output", tmp_path, "--sums")
    assert (tmp_path / "SHA256SUMS").read_text() == files["SHA256SUMS"].read_text()


def test_the_sdist_holds_what_the_wheel_is_built_from_and_nothing_else(files: dict[str, Path]) -> None:
    with tarfile.open(files[f"secondary_scheduler-{__version__}.tar.gz"]) as archive:
        top = {Path(name).parts[1] for name in archive.getnames()}
    packages, about = {"scheduler", "secondary_scheduler"}, {"README.md", "LICENSE", "CHANGELOG.md", "PKG-INFO"}
    assert top == {*packages, *about, "pyproject.toml", ".gitignore"}


@pytest.mark.parametrize("version", PYTHONS)
def test_the_command_line_works_in_an_empty_environment(files: dict[str, Path], version: str, tmp_path: Path) -> None:
    if version not in FOUND:
        pytest.skip(f"this machine has no Python {version}")
    run(FOUND[version], "-m", "venv", tmp_path / "env")
    programs = tmp_path / "env/bin"
    wheel = files[f"secondary_scheduler-{__version__}-py3-none-any.whl"]
    run(programs / "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[all]", cwd=tmp_path)
    run(programs / "pip", "check", cwd=tmp_path)
    shown = run(programs / "secondary-scheduler", "version", "--client", cwd=tmp_path)
    assert shown == f"Client Version: {__version__}\n"
    assert __version__ in run(programs / "kube-scheduler", "--version", cwd=tmp_path)
    assert __version__ in run(programs / "secondary-scheduler-operator", "--version", cwd=tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIGURATION)
    assert "is valid" in run(programs / "secondary-scheduler", "validate", "config.yaml", cwd=tmp_path)
