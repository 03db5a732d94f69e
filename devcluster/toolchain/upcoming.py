"""A kube-scheduler that is newer than those of the table: found on the Go module proxy, and built beside them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from devcluster.errors import BinaryError
from devcluster.progress import ProgressReporter
from devcluster.releases import RELEASES, KubernetesRelease
from devcluster.state import cache_root
from devcluster.toolchain import golang
from devcluster.toolchain.binaries import MODULES

KUBERNETES = "k8s.io/kubernetes"
_VERSION = re.compile(r"v?1\.(\d+)\.(\d+)(?:-(alpha|beta|rc)\.(\d+))?")
_STAGES = ("alpha", "beta", "rc", "")
_STAGING = re.compile(r"^\s*(?:require\s+)?(k8s\.io/[\w-]+) v0\.0\.0(?![-.\w])", re.MULTILINE)
_REPLACED = re.compile(r"^\s*(\S+) => (\S+)(?: (\S+))?$", re.MULTILINE)
_GO = re.compile(r"^go \S+$", re.MULTILINE)


class Version(NamedTuple):
    """A version of Kubernetes 1.x, in the order of releases: alphas, betas and candidates come before the minor's first
    patch."""

    minor: int
    patch: int
    stage: int
    number: int

    @property
    def text(self) -> str:
        """`1.38.0-beta.0`."""
        stage = f"-{_STAGES[self.stage]}.{self.number}" if _STAGES[self.stage] else ""
        return f"1.{self.minor}.{self.patch}{stage}"

    @property
    def staging(self) -> str:
        """The version of the modules that are released with it: `v0.38.0-beta.0`."""
        return f"v0{self.text.removeprefix('1')}"


def version_of(text: str) -> Version | None:
    """Read `1.38.0-beta.0` or `v1.38.0-beta.0`; None for anything else."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    return Version(int(match[1]), int(match[2]), _STAGES.index(match[3] or ""), int(match[4] or 0))


def newest_above(known: Version, texts: Iterable[str]) -> Version | None:
    """The newest version that makes a minor other than a known one, or what a minor is that was known before its
    release; None where there is none. A patch of a released minor is neither."""
    versions = [version for text in texts if (version := version_of(text)) is not None]
    is_released = not _STAGES[known.stage]
    above = [version for version in versions if version > known and (version.minor > known.minor or not is_released)]
    return max(above, default=None)


def published(report: ProgressReporter) -> list[str]:
    """The versions of Kubernetes that the Go module proxy serves. Raises BinaryError."""
    with tempfile.TemporaryDirectory() as nowhere:
        return _go(report, Path(nowhere), "list", "-m", "-versions", KUBERNETES).split()[1:]


def build(version: Version, report: ProgressReporter) -> Path:
    """Build its kube-scheduler, unless it is there. Nothing but caches changes.

    Raises:
        BinaryError: one line, for a module that the proxy lacks with its name.
    """
    output = cache_root() / "upcoming" / version.text / "kube-scheduler"
    if output.exists():
        return output
    with tempfile.TemporaryDirectory() as directory:
        module = Path(directory)
        _write_module(version, module, report)
        go = golang.find_go(cache_root(), report, golang.required(module))
        package = f"{KUBERNETES}/cmd/kube-scheduler"
        with report.step(f"building kube-scheduler {version.text}", announce=True) as advance:
            golang.add_requirements(go, module, package)
            golang.build(go, module, package, KubernetesRelease(version.text).ldflags, output, advance=advance)
    return output


def _write_module(version: Version, directory: Path, report: ProgressReporter) -> None:
    """Write a go.mod: Kubernetes, the modules released with it, and of others what the newest row replaces."""
    required = _go_mod(version, directory, report)
    staging = sorted(set(_STAGING.findall(required)))
    newest = max(RELEASES.values(), key=lambda release: version_of(release.version) or ())
    pattern = MODULES / newest.modules
    replaced = {name: (to, at) for name, to, at in _REPLACED.findall((pattern / "go.mod").read_text())}
    # Modules that the newest row does without, as kube-scheduler needs nothing of them.
    empty = {name: to for name, (to, _) in replaced.items() if to.startswith("./")}
    absent = [name for name in _absent(staging, version, directory, report) if name not in empty]
    if absent:
        raise BinaryError(f"the Go module proxy lacks {', '.join(absent)} {version.staging}")
    lines = [f"{name} => {empty.get(name, f'{name} {version.staging}')}" for name in staging]
    lines += [f"{name} => {to} {at}" for name, (to, at) in replaced.items() if at and name not in staging]
    for name in empty.values():
        shutil.copytree(pattern / name, directory / name)
    go = _GO.search(required)
    (directory / "go.mod").write_text(
        f"module secondary-scheduler.io/toolchain/upcoming\n\n{go[0] if go else ''}\n\n"
        f"require {KUBERNETES} v{version.text}\n\nreplace (\n" + "".join(f"\t{line}\n" for line in lines) + ")\n"
    )


def _go_mod(version: Version, directory: Path, report: ProgressReporter) -> str:
    """The go.mod of Kubernetes, which may ask for a newer Go than the one that fetches it."""
    query = f"{KUBERNETES}@v{version.text}"
    done = _run(report, directory, "mod", "download", "-json", query)
    try:
        return Path(json.loads(done.stdout)["GoMod"]).read_text()
    except (ValueError, KeyError) as error:
        raise BinaryError(f"the Go module proxy lacks {query}: {_complaint(done)}") from error


def _absent(modules: Sequence[str], version: Version, directory: Path, report: ProgressReporter) -> list[str]:
    """Those of the modules that cannot be had at the version released with Kubernetes."""
    queries = [f"{name}@{version.staging}" for name in modules]
    answers = _go(report, directory, "list", "-m", "-e", "-f", "{{.Path}} {{with .Error}}absent{{end}}", *queries)
    return [line.split()[0] for line in answers.splitlines() if line.endswith(" absent")]


def _go(report: ProgressReporter, directory: Path, *arguments: str) -> str:
    done = _run(report, directory, *arguments)
    if done.returncode != 0:
        raise BinaryError(f"go {' '.join(arguments[:2])}: {_complaint(done)}")
    return done.stdout


def _run(report: ProgressReporter, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    go = golang.find_go(cache_root(), report)
    return subprocess.run(
        [go, *arguments], cwd=directory, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def _complaint(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1].strip() if lines else f"exit code {done.returncode}"
