"""Runs the Pulumi engine on a stack of the checkout, as a user at the command line does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devcluster.errors import DevClusterError


class PulumiError(DevClusterError):
    """The engine refused or failed; its own output has said why."""


class DemoStack:
    """One stack of the project in `directory`, with the environment of a cluster.

    Output of `preview`, `up` and `destroy` goes straight to the user's screen.
    """

    def __init__(self, directory: Path, name: str, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._name = name
        self._environment = dict(environment)

    def select(self) -> None:
        """Make the stack in the cluster's backend, or find it there."""
        self._run("stack", "select", "--create", self._name, quiet=True)

    def preview(self, *, expect_no_changes: bool = False) -> None:
        """`pulumi preview`; PulumiError when it fails, or finds changes where none are expected."""
        self._run("preview", "--stack", self._name, *(["--expect-no-changes"] if expect_no_changes else []))

    def up(self) -> None:
        """`pulumi up` without a second preview."""
        self._run("up", "--stack", self._name, "--yes", "--skip-preview")

    def destroy(self) -> None:
        """`pulumi destroy`."""
        self._run("destroy", "--stack", self._name, "--yes", "--skip-preview")

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, secrets masked."""
        result: dict[str, Any] = json.loads(self._run("stack", "output", "--stack", self._name, "--json", quiet=True))
        return result

    def _run(self, *arguments: str, quiet: bool = False) -> str:
        command = ["pulumi", *arguments, "--non-interactive", "--color", "never" if quiet else "auto"]
        try:
            done = subprocess.run(
                command,
                cwd=self._directory,
                env=self._environment,
                stdout=subprocess.PIPE if quiet else None,
                stderr=subprocess.PIPE if quiet else None,
                text=True,
                check=False,
            )
        except FileNotFoundError as error:
            raise PulumiError("pulumi is not on PATH: it is part of the local cluster, see `cluster env`") from error
        if done.returncode:
            reason = f": {done.stderr.strip().splitlines()[-1]}" if quiet and done.stderr.strip() else ""
            raise PulumiError(f"pulumi {arguments[0]} failed with exit code {done.returncode}{reason}")
        return done.stdout or ""
