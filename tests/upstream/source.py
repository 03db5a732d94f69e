"""Copies of upstream's modules in the toolchain's cache, edited, and the test binaries that are built of them."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster.progress import ProgressReporter
from devcluster.state import cache_root
from devcluster.toolchain import golang
from tests.upstream import edits
from tests.upstream.suites import KUBERNETES, Suite


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
    """The edited copies for a suite, in a directory of its own. Its packages are compiled in a module of ours, which
    requires them."""

    def __init__(self, suite: Suite, report: ProgressReporter) -> None:
        self._suite = suite
        self._report = report
        directory = suite.version if suite.module == KUBERNETES else f"{suite.name}-{suite.version}"
        self._root = cache_root() / "upstream" / directory
        self._build = self._root / "build"
        # As it is now: our files may be changed while tests run.
        self._digest = self._digested()

    def package(self, name: str) -> Package:
        """A package with tests, such as `filters` or `preemption/misc`."""
        return Package(
            name,
            self._suite.release.minor,
            self._root / "bin" / Path(self._suite.root).name / f"{name.replace('/', '-')}-{self._digest}.test",
            self._copy(self._suite.module) / self._suite.root / name,
            {"TEST_SRCDIR": str(self._root), "TEST_WORKSPACE": "."},
        )

    def packages(self) -> list[str]:
        """Every package with tests; `.` is the one at the root. Raises BinaryError."""
        self._prepare()
        root = self._copy(self._suite.module) / self._suite.root
        return sorted({str(file.parent.relative_to(root)) for file in root.rglob("*_test.go")})

    def is_built(self, packages: list[str]) -> bool:
        """Whether all of the packages' test binaries are there."""
        return all(self.package(package).binary.exists() for package in packages)

    def build(self, packages: list[str]) -> None:
        """Build what is missing of the packages' test binaries. Raises BinaryError."""
        self._prepare()
        missing = [package for package in packages if not self.package(package).binary.exists()]
        if not missing:
            return
        go = self._go()
        with golang.build_lock(self._root, self._report):
            golang.add_requirements(go, self._build, "-test", *(self._import_path(package) for package in missing))
            for number, package in enumerate(missing, 1):
                label = f"compiling the tests of {package} ({number} of {len(missing)})"
                with self._report.step(label, announce=True):
                    # With them the tests' API servers tell their version, as which ours behaves.
                    ldflags = self._suite.release.ldflags
                    binary = self.package(package).binary
                    golang.build_test(go, self._build, self._import_path(package), ldflags, binary)

    def _go(self) -> Path:
        return golang.find_go(cache_root(), self._report, golang.required(self._suite.requirements))

    def _import_path(self, package: str) -> str:
        root = f"{self._suite.module}/{self._suite.root}"
        return root if package == "." else f"{root}/{package}"

    def _copy(self, module: str) -> Path:
        """A path that the compiler writes into binaries, and upstream's helpers look for below TEST_SRCDIR."""
        version = self._suite.version if module == self._suite.module else self._suite.release.version
        return self._root / f"{module}@v{version}"

    def _digested(self) -> str:
        """Changes with everything of ours that goes into the binaries."""
        added = [(place, file) for module in self._suite.edited for place, file in edits.ADDED[module].items()]
        places = sorted(place for place, _ in added)
        digest = hashlib.sha256(repr((edits.EDITS, places, self._suite.release.ldflags)).encode())
        for file in sorted([*(file for _, file in added), *self._suite.requirements.glob("go.*")]):
            digest.update(file.read_bytes())
        return digest.hexdigest()[:12]

    def _prepare(self) -> None:
        """Copy the modules and edit them, where that is not done yet."""
        stamp = self._root / f"edited-{self._digest}"
        if stamp.exists():
            return
        with golang.build_lock(self._root, self._report):
            shutil.rmtree(self._build, ignore_errors=True)
            self._build.mkdir()
            shutil.copyfile(self._suite.requirements / "go.sum", self._build / "go.sum")
            requirements = (self._suite.requirements / "go.mod").read_text()
            for module in sorted(self._suite.edited):
                self._edit(module)
                requirements = replaced_by(requirements, module, self._copy(module))
            (self._build / "go.mod").write_text(requirements)
            for old in self._root.glob("edited-*"):
                old.unlink()
            stamp.touch()

    def _edit(self, module: str) -> None:
        copy = self._copy(module)
        with self._report.step(f"copying {module} {copy.name.partition('@')[2]}", announce=True):
            original = golang.module_directory(self._go(), self._suite.requirements, module)
            temporary = self._root / ".copy"
            for old in (temporary, copy):
                shutil.rmtree(old, ignore_errors=True)
            # The files of the module cache are read-only; a copy's need not be.
            shutil.copytree(original, temporary, copy_function=shutil.copyfile, ignore=_left_out)
            for path, text in edits.replaced(temporary).items():
                (temporary / path).write_text(text)
            for path, file in edits.ADDED[module].items():
                shutil.copyfile(file, temporary / path)
            copy.parent.mkdir(exist_ok=True)
            temporary.replace(copy)


def replaced_by(requirements: str, module: str, directory: Path) -> str:
    """The text of a go.mod that takes a module from a directory, in place of what it says of that."""
    others = re.sub(rf"(?m)^\s*(replace )?{re.escape(module)} => .*\n", "", requirements)
    return f"{others}\nreplace {module} => {directory}\n"


def _left_out(directory: str, names: list[str]) -> set[str]:
    """What no Go package needs, a fifth of Kubernetes."""
    return (
        {"api", "CHANGELOG", "cluster", "hack", "LICENSES"} & set(names)
        if Path(directory, "go.mod").exists()
        else set()
    )
