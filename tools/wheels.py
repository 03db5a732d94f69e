"""Builds what a package index gets, and checks it: `dist/` holds the wheel and sdist of each distribution.

    tools/wheels.py [--output DIR]     build; twine checks the metadata
    tools/wheels.py --sums             also write SHA256SUMS beside them

The build backend is this environment's, so that no index is asked. Times in the archives are SOURCE_DATE_EPOCH's, else
those of the commit: two builds of one commit give the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISTRIBUTIONS = (".", "components")
"""Folders with a pyproject.toml. `devcluster` is for a clone: it builds a control plane, and is not published."""
_BUILD = """
import sys
import hatchling.build as backend

for build in (backend.build_sdist, backend.build_wheel):
    print(build(sys.argv[1]))
"""


class BuildError(Exception):
    """One line for the user."""


def source_date_epoch() -> str:
    """Seconds since 1970 that stand for the time of a build: the environment's, else the commit's, else 1980's."""
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        return epoch
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # A zip archive knows no earlier year.
    return done.stdout.strip() or "315532800"


def build(output: Path, distributions: Sequence[str] = DISTRIBUTIONS) -> list[Path]:
    """Build sdist and wheel of each distribution; returns the files."""
    output.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": source_date_epoch()}
    files = []
    for distribution in distributions:
        done = subprocess.run(
            [sys.executable, "-c", _BUILD, str(output.resolve())],
            cwd=ROOT / distribution,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise BuildError(f"{distribution}: the build failed: {done.stderr.strip().splitlines()[-1]}")
        files += [output / name for name in done.stdout.split()]
    return files


def check(files: Sequence[Path]) -> None:
    """Have twine check the metadata; a warning is an error."""
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"twine check --strict: {done.stdout.strip()} {done.stderr.strip()}")


def write_sums(files: Sequence[Path], output: Path) -> Path:
    """Write SHA256SUMS, as `sha256sum --check` reads it."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files)]
    sums = output / "SHA256SUMS"
    sums.write_text("".join(lines), encoding="utf-8")
    return sums


def main(argv: Sequence[str]) -> int:
    """Build and check as the options say; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="directory (default: dist)")
    parser.add_argument("--sums", action="store_true", help="also write SHA256SUMS")
    options = parser.parse_args(argv)
    try:
        files = build(options.output)
        check(files)
        if options.sums:
            files.append(write_sums(files, options.output))
    except BuildError as failure:
        print(f"wheels: {failure}", file=sys.stderr)
        return 1
    print("\n".join(str(file) for file in files))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
