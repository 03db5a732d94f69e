"""krew takes the manifest, and installs the archive; kubectl then runs the plugin."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from devcluster.progress import PlainReporter
from devcluster.toolchain.binaries import ensure
from scheduler import __version__
from tests.support.rendering import ROOT
from tools.kubectl_plugin import BINARY, MACHINES, NAME, PYTHONS

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
ARCH = {machine: arch for arch, machine in MACHINES.items()}.get(platform.machine())
pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(OWN not in PYTHONS or ARCH is None, reason="there is no archive for this Python or machine"),
]


@pytest.fixture(scope="module")
def tools() -> dict[str, Path]:
    return ensure(["krew", "validate-krew-manifest", "kubectl"], PlainReporter(Console(stderr=True)))


def build(output: Path) -> Path:
    """Make archive and manifest for this machine, in a directory; returns the archive."""
    uri = "https://downloads.example.com"
    command = [sys.executable, str(ROOT / "tools/kubectl_plugin.py"), "--uri", uri, "--output", str(output)]
    command += ["--python", OWN, "--arch", str(ARCH)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return output / f"{BINARY}-{__version__}-linux-{ARCH}.tar.gz"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("plugin"))


def test_krews_own_rules_accept_the_manifest(archive: Path, tools: dict[str, Path]) -> None:
    manifest = archive.parent / f"{NAME}.yaml"
    command = [tools["validate-krew-manifest"], "-manifest", str(manifest), "-skip-install"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_builds_are_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    again = build(tmp_path)
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(archive.read_bytes()).digest()


def test_kubectl_runs_what_krew_has_installed(archive: Path, tools: dict[str, Path], tmp_path: Path) -> None:
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    (bin_directory / "kubectl").symlink_to(tools["kubectl"])
    (bin_directory / "python3").symlink_to(sys.base_prefix + f"/bin/python{OWN}")
    krew_root = tmp_path / "krew"
    environment = {
        "PATH": os.pathsep.join([str(bin_directory), str(krew_root / "bin"), "/usr/bin", "/bin"]),
        "HOME": str(tmp_path),
        "KREW_ROOT": str(krew_root),
        "KREW_NO_UPGRADE_CHECK": "1",
    }
    manifest = archive.parent / f"{NAME}.yaml"
    for command in (
        [str(tools["krew"]), "install", f"--manifest={manifest}", f"--archive={archive}"],
        ["kubectl", "secondary-scheduler", "--version"],
    ):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert __version__ in done.stdout
