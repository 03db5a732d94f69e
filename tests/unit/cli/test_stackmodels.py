"""The stack settings of a project are loaded from the project itself; a project without them is one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STACK_FILE = "config:\n  secondary-scheduler:schedulerImage: registry.example.com/kube-scheduler:1\n"


@pytest.mark.parametrize(
    ("project", "message"),
    [
        (None, "neither above it nor above the working directory is a Pulumi.yaml; go to a clone of the project"),
        ("name: other\n", "belongs to the project 'other' of "),
        ("name: secondary-scheduler\n", "cannot be loaded: No module named 'stacks'"),
        ("]", "Pulumi.yaml: not valid YAML"),
    ],
)
def test_a_project_that_cannot_check_its_stacks_is_one_line(tmp_path: Path, project: str | None, message: str) -> None:
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(STACK_FILE)
    if project is not None:
        (tmp_path / "Pulumi.yaml").write_text(project)
    # A process of its own that finds our packages but not the checkout's `stacks`.
    code = (
        "import importlib.machinery, sys\n"
        f"sys.path = [entry for entry in sys.path if entry not in ('', {str(ROOT)!r})]\n"
        "def spec(name):\n"
        f"    return importlib.machinery.PathFinder.find_spec(name, [{str(ROOT)!r}])\n"
        "class Packages:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        return spec(name) if name in ('scheduler', 'secondary_scheduler') else None\n"
        "sys.meta_path.insert(0, Packages())\n"
        "from secondary_scheduler.cli.app import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "validate", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert result.returncode == 4, result.stderr
    assert result.stderr.startswith(f"{file}: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
