"""Environments that hold the wheel and exactly what one of its extras pulls in, made without a package index."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SITE_PACKAGES = Path(sysconfig.get_path("purelib"))


def build_wheel(directory: Path) -> Path:
    """Build the distribution's wheel as `pip wheel .` does, with the build backend of this environment."""
    code = f"import hatchling.build; print(hatchling.build.build_wheel({str(directory)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return directory / done.stdout.split()[-1]


def make_environment(directory: Path, wheel: Path, extra: str = "") -> Path:
    """Make a virtual environment with the wheel and what it requires with that extra; returns its `bin`.

    The required distributions are those of this environment, linked: their versions are the locked ones, and no index
    is asked. Nothing else of this environment can be imported there.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], timeout=60, check=True)
    uv = Path(sys.executable).parent / "uv"
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", directory / "bin" / "python", wheel],
        timeout=60,
        check=True,
    )
    (site_packages,) = directory.glob("lib/python3*/site-packages")
    (metadata,) = site_packages.glob("secondary_scheduler-*.dist-info")
    product = importlib.metadata.Distribution.at(metadata)
    for distribution in _closure(product, extra):
        names = {Path(str(file)).parts[0] for file in distribution.files or [] if Path(str(file)).parts[0] != ".."}
        for name in names:
            _link(SITE_PACKAGES / name, site_packages / name)
    return directory / "bin"


def _closure(product: importlib.metadata.Distribution, extra: str) -> Iterator[importlib.metadata.Distribution]:
    """The distributions that a distribution needs with an extra, each once, itself left out."""
    waiting = list(_requirements(product, extra))
    visited: set[tuple[str, str]] = set()
    yielded: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        name = _normalised(requirement.name)
        itself = name == _normalised(product.name)
        distribution = product if itself else importlib.metadata.distribution(name)
        if not itself and name not in yielded:
            yielded.add(name)
            yield distribution
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in visited:
                visited.add((name, wanted))
                waiting += _requirements(distribution, wanted)


def _requirements(distribution: importlib.metadata.Distribution, extra: str) -> Iterator[Requirement]:
    for text in distribution.requires or []:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _link(source: Path, target: Path) -> None:
    """Link a file or package; a namespace package, which several distributions share, part by part."""
    if target.exists():
        if target.is_symlink() or not source.is_dir():
            return
    elif source.is_file() or (source / "__init__.py").exists() or source.suffix in (".dist-info", ".libs"):
        target.symlink_to(source)
        return
    target.mkdir(exist_ok=True)
    for child in source.iterdir():
        if child.name != "__pycache__":
            _link(child, target / child.name)


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
