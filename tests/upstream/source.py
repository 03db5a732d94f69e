"""A copy of upstream's module in the toolchain's cache, edited, and the test binaries that are built of it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster.progress import Reporter
from devcluster.releases import Release
from devcluster.state import cache_root
from devcluster.toolchain import golang
from devcluster.toolchain.binaries import MODULES
from tests.upstream import edits

MODULE = "k8s.io/kubernetes"
ROOT = "test/integration/scheduler"
"""Where the packages are in the module."""


@dataclass(frozen=True)
class Package:
    """A package of tests.

    Attributes:
        binary: its test binary, once it is built.
        directory: where that must run: tests read files beside their sources.
        environment: what tells it where the module is.
    """

    name: str
    minor: str
    binary: Path
    directory: Path
    environment: Mapping[str, str]


class Source:
    """The edited copy of one release.

    Its packages are compiled in a module of ours, with the requirements that kube-scheduler of the local cluster is
    built with, so that the compiler's cache has most of them already.
    """

    def __init__(self, release: Release, report: Reporter) -> None:
        self._release = release
        self._report = report
        self._root = cache_root() / "upstream" / release.version
        self._build = self._root / "build"
        # A path that the compiler writes into binaries, and upstream's helpers look for below TEST_SRCDIR.
        self._copy = self._root / f"{MODULE}@v{release.version}"
        self._requirements = MODULES / release.modules
        # As it is now: our files may be changed while tests run.
        self._digest = self._digested()

    def package(self, name: str) -> Package:
        """A package with tests, such as `filters` or `preemption/misc`."""
        return Package(
            name,
            self._release.minor,
            self._root / "bin" / f"{name.replace('/', '-')}-{self._digest}.test",
            self._copy / ROOT / name,
            {"TEST_SRCDIR": str(self._root), "TEST_WORKSPACE": "."},
        )

    def packages(self) -> list[str]:
        """Every package with tests; `.` is the one at the root. Raises BinaryError."""
        self._prepare()
        return sorted(
            {str(file.parent.relative_to(self._copy / ROOT)) for file in (self._copy / ROOT).rglob("*_test.go")}
        )

    def is_built(self, packages: list[str]) -> bool:
        """Whether all of the packages' test binaries are there."""
        return all(self.package(package).binary.exists() for package in packages)

    def build(self, packages: list[str]) -> None:
        """Build what is missing of the packages' test binaries. Raises BinaryError."""
        self._prepare()
        missing = [package for package in packages if not self.package(package).binary.exists()]
        if not missing:
            return
        go = golang.find_go(cache_root(), self._report, golang.required(self._requirements))
        with golang.build_lock(self._root, self._report):
            golang.add_requirements(go, self._build, "-test", *(self._import_path(package) for package in missing))
            for number, package in enumerate(missing, 1):
                label = f"compiling the tests of {package} ({number} of {len(missing)})"
                with self._report.step(label, announce=True):
                    # With them the tests' API servers tell their version, as which ours behaves.
                    ldflags = self._release.ldflags
                    binary = self.package(package).binary
                    golang.build_test(go, self._build, self._import_path(package), ldflags, binary)

    def _import_path(self, package: str) -> str:
        return f"{MODULE}/{ROOT}" if package == "." else f"{MODULE}/{ROOT}/{package}"

    def _digested(self) -> str:
        """Changes with everything of ours that goes into the binaries."""
        digest = hashlib.sha256(repr((edits.EDITS, sorted(edits.ADDED), self._release.ldflags)).encode())
        for file in sorted([*edits.ADDED.values(), *self._requirements.glob("go.*")]):
            digest.update(file.read_bytes())
        return digest.hexdigest()[:12]

    def _prepare(self) -> None:
        """Copy the module and edit it, where that is not done yet."""
        stamp = self._root / f"edited-{self._digest}"
        if stamp.exists():
            return
        with golang.build_lock(self._root, self._report):
            go = golang.find_go(cache_root(), self._report, golang.required(self._requirements))
            with self._report.step(f"copying {MODULE} v{self._release.version}", announce=True):
                original = golang.module_directory(go, self._requirements, MODULE)
                temporary = self._root / ".copy"
                for old in (temporary, self._copy, self._build):
                    shutil.rmtree(old, ignore_errors=True)
                # The files of the module cache are read-only; a copy's need not be.
                shutil.copytree(original, temporary, copy_function=shutil.copyfile, ignore=_left_out)
                for path, text in edits.replaced(temporary).items():
                    (temporary / path).write_text(text)
                for path, file in edits.ADDED.items():
                    shutil.copyfile(file, temporary / path)
                self._copy.parent.mkdir(exist_ok=True)
                temporary.replace(self._copy)
            self._build.mkdir()
            shutil.copyfile(self._requirements / "go.sum", self._build / "go.sum")
            text = (self._requirements / "go.mod").read_text()
            (self._build / "go.mod").write_text(f"{text}\nreplace {MODULE} => {self._copy}\n")
            for old in self._root.glob("edited-*"):
                old.unlink()
            stamp.touch()


def _left_out(directory: str, names: list[str]) -> set[str]:
    """What no Go package needs, a fifth of the module."""
    return (
        {"api", "CHANGELOG", "cluster", "hack", "LICENSES"} & set(names)
        if Path(directory, "go.mod").exists()
        else set()
    )
