"""A Pulumi project in a directory of its own, an engine with state of its own, and fleet commands on it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devcluster.toolchain.binaries import BINARIES, find
from tests.support.stand_ins import link_stand_ins, missing_official_plugins
from tests.support.waiting import PATIENCE_SECONDS

CHECKOUT = Path(__file__).resolve().parents[2]
# Byte code is copied, too: compiling the project takes longer than a preview.
_NOT_COPIED = shutil.ignore_patterns(
    *(".git", ".venv", "tests", "benchmarks", "docs", "image", "examples", ".*_cache", "modules")
)
TOKEN = "canary-token-27182818"


class Fleet:
    """A project and the stacks in it.

    Attributes:
        root: the project's directory.
        environment: in which pulumi and the fleet commands run.
        token: a file with `TOKEN`, which no output may show.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self.root = directory / "project"
        self.state = directory / "state"
        self.token = directory / "token"
        self.token.write_text(TOKEN + "\n")
        for name in ("state", "home", "bin"):
            (directory / name).mkdir()
        pulumi = find(BINARIES["pulumi"])
        assert pulumi is not None, "the pulumi binary is not built; run `secondary-scheduler cluster up` once"
        (directory / "bin" / "pulumi").symlink_to(pulumi)
        link_stand_ins(directory / "bin", missing_official_plugins())
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "KUBECONFIG"))}
        self.environment = inherited | {
            "PATH": os.pathsep.join([str(directory / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(CHECKOUT),
            "KUBECONFIG": str(directory / "no-kubeconfig"),
            "PULUMI_BACKEND_URL": f"file://{self.state}",
            "PULUMI_HOME": str(directory / "home"),
            "PULUMI_CONFIG_PASSPHRASE": "local",
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "1",
            "PULUMI_DIY_BACKEND_NO_LEGACY_WARNING": "1",
            "COLUMNS": "250",
            **(environment or {}),
        }

    @classmethod
    def of_this_project(cls, directory: Path, environment: Mapping[str, str] | None = None) -> Fleet:
        """The project itself, in a copy."""
        fleet = cls(directory, environment)
        shutil.copytree(CHECKOUT, fleet.root, ignore=_NOT_COPIED)
        (fleet.root / ".venv").symlink_to(Path(sys.executable).parent.parent)
        for file in (fleet.root / "stacks").glob("Pulumi.*.yaml"):
            if file.name not in ("Pulumi.local.yaml", "Pulumi.openshift-prod.yaml"):
                file.unlink()
        return fleet

    @classmethod
    def of_program(cls, directory: Path, program: str) -> Fleet:
        """A project whose program is given."""
        fleet = cls(directory)
        (fleet.root / "stacks").mkdir(parents=True)
        (fleet.root / "Pulumi.yaml").write_text("name: tiny\nruntime: python\nstackConfigDir: stacks\n")
        (fleet.root / "__main__.py").write_text(program)
        return fleet

    def settings(self, stack: str) -> Path:
        """The stack's settings file."""
        return self.root / "stacks" / f"Pulumi.{stack}.yaml"

    def add(self, stack: str, config: Mapping[str, Any] | None = None, kubeconfig: Path | None = None) -> None:
        """Make a stack with these settings; the kubeconfig is kept encrypted."""
        self.settings(stack).write_text(json.dumps({"config": dict(config or {})}))
        self.pulumi("stack", "init", stack, "--no-select")
        if kubeconfig is not None:
            text = kubeconfig.read_text()
            self.pulumi("config", "set", "--stack", stack, "--secret", "kubeconfig", stdin=text)

    def set(self, stack: str, key: str, value: str, *options: str) -> None:
        """Change one setting."""
        self.pulumi("config", "set", "--stack", stack, *options, key, value)

    def pulumi(self, *arguments: str, stdin: str | None = None) -> str:
        """Run pulumi itself; it has to succeed."""
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.root,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `secondary-scheduler fleet …`."""
        return subprocess.run(
            self._command(*arguments),
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    def result(self, *arguments: str, code: int = 0) -> dict[str, dict[str, Any]]:
        """The stacks of `-o json` by name."""
        done = self.run(*arguments, "-o", "json")
        assert done.returncode == code, done.stdout + done.stderr
        return {stack["stack"]: stack for stack in json.loads(done.stdout)["stacks"]}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `secondary-scheduler fleet …` beside the test."""
        return subprocess.Popen(
            self._command(*arguments),
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def locks(self) -> list[Path]:
        """The locks of all stacks."""
        return list((self.state / ".pulumi" / "locks").rglob("*.json"))

    def wait_locked(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until some stack is locked."""
        deadline = time.monotonic() + seconds
        while not self.locks():
            assert time.monotonic() < deadline, "no stack is being updated"
            time.sleep(0.05)

    @staticmethod
    def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
        """Ctrl-C; what was printed."""
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=PATIENCE_SECONDS)

    @staticmethod
    def _command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "secondary_scheduler.cli", "fleet", *arguments]


def dead_kubeconfig(file: Path) -> Path:
    """A kubeconfig of a cluster that is not there."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dead",
        "clusters": [{"name": "dead", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "dead", "user": {"token": TOKEN}}],
        "contexts": [{"name": "dead", "context": {"cluster": "dead", "user": "dead"}}],
    }
    file.write_text(json.dumps(content))
    return file
