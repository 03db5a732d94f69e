"""The wheels that a lock has for another Python or another machine than this one: fetched and unpacked, never run.

pip judges the lock's markers by the Python that runs it, so they are judged here.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from tools.wheels import BuildError

_OLDEST_GLIBC = 17


@dataclass(frozen=True)
class WheelTarget:
    """A CPython on Linux that wheels are wanted for."""

    python: str
    """`3.11`"""
    machine: str
    """`x86_64` or `aarch64`"""
    glibc: int = 28
    """The newest minor version of glibc 2 that its wheels may need."""

    def environment(self) -> dict[str, str]:
        """What markers of requirements see there."""
        return {
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
        }

    def pip_options(self) -> list[str]:
        """Options with which pip chooses wheels for it."""
        short = self.python.replace(".", "")
        platforms = [f"manylinux_2_{minor}_{self.machine}" for minor in range(self.glibc, _OLDEST_GLIBC - 1, -1)]
        abis = [f"cp{short}", "abi3", "none"]
        return [
            *("--python-version", self.python, "--implementation", "cp"),
            *(part for abi in abis for part in ("--abi", abi)),
            *(part for name in (*platforms, f"manylinux2014_{self.machine}") for part in ("--platform", name)),
        ]


def requirements(lock: Path, target: WheelTarget) -> str:
    """Return the lines of a lock that count for a target, with their hashes and without markers."""
    lines: list[str] = []
    counts = False
    for line in lock.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            requirement = Requirement(line.removesuffix("\\").strip())
            counts = requirement.marker is None or requirement.marker.evaluate(target.environment())
        if counts:
            lines.append(re.sub(r" ;.*?( \\)?$", r"\1", line))
    return "\n".join(lines) + "\n"


def fetch(lock: Path, target: WheelTarget, directory: Path) -> list[Path]:
    """Fill a directory with exactly a target's wheels of a lock, each with a hash of it; returns them by name.

    Raises BuildError when pip fails. What is there already from the same lock is not fetched again.
    """
    text = requirements(lock, target)
    mark = directory / ".lock"
    digest = hashlib.sha256(f"{target} {text}".encode()).hexdigest()
    if not mark.exists() or mark.read_text(encoding="utf-8") != digest:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
            pip += ["--require-hashes", "--no-deps", "--only-binary", ":all:", *target.pip_options()]
            done = subprocess.run(
                [*pip, "--dest", str(directory), "--requirement", file.name],
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise BuildError(f"{lock.name} for Python {target.python} on {target.machine}: {reason}")
        mark.write_text(digest, encoding="utf-8")
    return sorted(directory.glob("*.whl"))


def unpack(wheels: Iterable[Path], directory: Path) -> None:
    """Unpack wheels as pip would install them into a directory, without their scripts, headers and data."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                match = re.match(r"[^/]+\.data/([^/]+)/(.+)", entry.filename)
                if match and match[1] not in ("purelib", "platlib"):
                    continue
                file = directory / (match[2] if match else entry.filename)
                if not file.resolve().is_relative_to(directory.resolve()):
                    raise BuildError(f"{wheel.name}: {entry.filename} leads out of the directory")
                if entry.is_dir():
                    continue
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive.read(entry))
