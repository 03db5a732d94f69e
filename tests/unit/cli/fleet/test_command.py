"""The command line of fleets: what it costs others, and mistakes told on one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: mine\nruntime: python\n")
    (tmp_path / "Pulumi.prod.yaml").write_text("config: {}\n")
    return tmp_path


def fleet(directory: Path, *arguments: str, path: str = "/nowhere") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "secondary_scheduler.cli", "fleet", *arguments],
        cwd=directory,
        env={"PATH": path, "HOME": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_no_command_line_imports_pulumi_when_it_starts() -> None:
    code = (
        "import sys; from secondary_scheduler.cli.app import build; build(['--help']); build(['fleet']); "
        "print('pulumi' in sys.modules, 'secondary_scheduler.cli.fleet.command' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_without_pulumi_on_path_one_line_says_what_to_do(project: Path) -> None:
    done = fleet(project, "preview", "--stacks", "prod")
    assert done.returncode == 1
    assert done.stderr.startswith("secondary-scheduler: pulumi is not on PATH: see https://www.pulumi.com/docs/install")
    assert done.stderr.count("\n") == 1


def test_without_the_package_pulumi_one_line_says_what_to_do(project: Path) -> None:
    (project / "pulumi.py").write_text("raise ModuleNotFoundError(\"No module named 'pulumi'\", name='pulumi')\n")
    done = fleet(project, "up", "--stacks", "prod")
    assert done.returncode == 1
    assert "the Python package 'pulumi' is not installed; it comes with the extra 'cli': pip install" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--stacks", "dev-*"], 2, "--stacks dev-*: no stack matches; there are: prod"),
        (["--stacks", "prod", "--waves", "canary"], 2, "stack prod is in wave rest"),
        (["--stacks", "prod", "--markdown", "none/c.md"], 1, "--markdown none/c.md: there is no directory"),
        (["--stacks", "prod", "--project", "/"], 2, "/: no Pulumi.yaml here or above"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_started(
    project: Path, arguments: list[str], code: int, message: str
) -> None:
    done = fleet(project, "preview", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
