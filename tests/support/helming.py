"""Helm, with a home of its own, for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from devcluster.progress import SilentReporter
from devcluster.toolchain.binaries import ensure

HOOK = "helm.sh/hook"


class Helm:
    """The program, which is built when it is first asked for.

    Args:
        home: directory for what Helm keeps of its own.
        kubeconfig: of the cluster; a file that does not exist for commands that need none.
    """

    def __init__(self, home: Path, kubeconfig: Path) -> None:
        self._program = ensure(["helm"], SilentReporter())["helm"]
        self._environment = {
            "PATH": os.defpath,
            "HOME": str(home),
            "KUBECONFIG": str(kubeconfig),
            **{f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")},
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command; whether it succeeds is the caller's to judge."""
        return subprocess.run(
            [str(self._program), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def done(self, *arguments: str) -> str:
        """Run a command that succeeds, and return what it prints."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def template(self, chart: Path, *arguments: str) -> list[dict[str, Any]]:
        """The objects of a release, with CRDs and without hooks."""
        printed = self.done("template", "release", str(chart), "--include-crds", "--no-hooks", *arguments)
        return [manifest for manifest in yaml.safe_load_all(printed) if manifest]


def by_name(manifests: list[dict[str, Any]]) -> Mapping[tuple[str, str], dict[str, Any]]:
    """Objects by kind and name; each is there once."""
    named = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}
    assert len(named) == len(manifests)
    return named
