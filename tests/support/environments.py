"""Environments that hold exactly what a reader's own would, made without a package index."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SITE_PACKAGES = Path(sysconfig.get_path("purelib"))
_PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)


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
    install_wheel(directory, wheel, extra)
    return directory / "bin"


def install_wheel(environment: Path, wheel: Path, extra: str = "") -> None:
    """Install the wheel, and link what it requires with that extra."""
    uv = Path(sys.executable).parent / "uv"
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--python", environment / "bin" / "python", wheel],
        timeout=60,
        check=True,
    )
    (metadata,) = _site_packages(environment).glob("secondary_scheduler-*.dist-info")
    for distribution in _closure(importlib.metadata.Distribution.at(metadata), extra):
        _link_distribution(distribution, _site_packages(environment))


def link_requirements(environment: Path, *requirements: str) -> None:
    """Link distributions of this environment, with what they need, into another."""
    for distribution in required_with_extras(requirements):
        _link_distribution(distribution, _site_packages(environment))


def make_locked_environment(directory: Path, requirements: Path) -> Path:
    """Make a virtual environment with exactly what a lock file lists, pip among it; returns its `bin`.

    The distributions are those of this environment, linked. One that is not installed here in the locked version is
    an error.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], timeout=60, check=True)
    for name, version in _PIN.findall(requirements.read_text(encoding="utf-8")):
        distribution = importlib.metadata.distribution(name)
        assert distribution.version == version, f"{name} {version} is locked, {distribution.version} is installed here"
        _link_distribution(distribution, _site_packages(directory))
    pip = directory / "bin" / "pip"
    pip.write_text(f"#!{directory}/bin/python\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n")
    pip.chmod(0o755)
    return directory / "bin"


def required_with_extras(requirements: Iterable[str]) -> list[importlib.metadata.Distribution]:
    """The distributions of some requirements and what these need, each once; this project itself left out."""
    closure: dict[str, importlib.metadata.Distribution] = {}
    for text in requirements:
        requirement = Requirement(text)
        root = importlib.metadata.distribution(requirement.name)
        roots = [] if _normalised(root.name) == "secondary-scheduler" else [root]
        for extra in ("", *requirement.extras):
            for each in (*roots, *_closure(root, extra)):
                closure[_normalised(each.name)] = each
    return list(closure.values())


def _site_packages(environment: Path) -> Path:
    (site_packages,) = environment.glob("lib/python3*/site-packages")
    return site_packages


def _link_distribution(distribution: importlib.metadata.Distribution, site_packages: Path) -> None:
    names = {Path(str(file)).parts[0] for file in distribution.files or [] if Path(str(file)).parts[0] != ".."}
    for name in names:
        _link(SITE_PACKAGES / name, site_packages / name)


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
