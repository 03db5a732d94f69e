"""A clone of the project with a stack of the test's own, and its rendered manifests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from scheduler import __version__

ROOT = Path(__file__).resolve().parents[2]
_SHARED = ("__main__.py", "components", "stacks", "scheduler", "secondary_scheduler", ".venv")
# Without a metric source nothing has to be reached.
PLAIN = {
    "cluster": {"clusterIdentifier": "test"},
    "schedulerImage": f"localhost/secondary-scheduler/kube-scheduler:{__version__}",
    "operatorImage": f"localhost/secondary-scheduler/operator:{__version__}",
}


class Project:
    """A directory with a Pulumi.yaml of its own, whose stack files stand under `settings`."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "project"
        (self.root / "settings").mkdir(parents=True)
        for name in _SHARED:
            (self.root / name).symlink_to(ROOT / name)
        text = (ROOT / "Pulumi.yaml").read_text()
        assert "stackConfigDir: stacks\n" in text
        (self.root / "Pulumi.yaml").write_text(text.replace("stackConfigDir: stacks\n", "stackConfigDir: settings\n"))

    def stack(self, name: str, values: Mapping[str, Any] = PLAIN, **more: Any) -> None:
        """Write a stack's file; keys are without the project's name."""
        config = {f"secondary-scheduler:{key}": value for key, value in {**values, **more}.items()}
        (self.root / "settings" / f"Pulumi.{name}.yaml").write_text(yaml.safe_dump({"config": config}))

    def render(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Call the command line as a user does, in the project's directory."""
        return subprocess.run(
            [sys.executable, "-m", "secondary_scheduler.cli", "render", *arguments],
            cwd=self.root,
            env={"PATH": "/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def manifests(self, stack: str, *arguments: str, **environment: str) -> list[dict[str, Any]]:
        """The objects of a stack."""
        done = self.render("--stack", stack, *arguments, **environment)
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]
