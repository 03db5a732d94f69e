"""The version: `scheduler.__version__` is its source, and the build of the wheel reads it from there.

What cannot read it (packages of their own, manifests, examples on pages) has a copy, which a test compares.

    tools/version.py                print the version
    tools/version.py --check        name the copies that say another one; exit code 1 if there are any
    tools/version.py --set 0.3.0    write it to the source and to every copy; then: make olm

The pages about an upgrade say the next patch, which is derived.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("scheduler/__init__.py")
UPGRADE = Path("docs/guides/upgrade.md")
_VERSION = r"(?P<version>\d+\.\d+\.\d+)"
_SOURCE = re.compile(rf'^__version__ = "{_VERSION}"$', re.MULTILINE)
# How a version of this project is written; other versions on the same pages follow something else.
_BEFORE = (
    *(r"secondary-scheduler/(?:kube-scheduler|operator|catalog|\$name):", "secondary-scheduler-catalog:"),
    *(r"registry\.example\.com/…:", r"secondary-scheduler-operator\.v", "secondary-scheduler=="),
    *("secondary_scheduler(?:_pulumi)?-", r"\.github/actions/[\w-]+@v", "ARG VERSION=", "secondary scheduler "),
    *("git merge v", "releases/download/v", "version: v"),
)
_COPIES = re.compile(rf"(?:{'|'.join(_BEFORE)}){_VERSION}(?!\d|\.\d)")
# Where a copy stands in a line of its own.
_IN_LINES = {
    Path("components/pyproject.toml"): re.compile(rf'^version = "{_VERSION}"$', re.MULTILINE),
    Path("devcluster/pyproject.toml"): re.compile(rf'^version = "{_VERSION}"$', re.MULTILINE),
    Path(".pre-commit-hooks.yaml"): re.compile(rf"rev: v{_VERSION}$", re.MULTILINE),
}
WITH_COPIES = (
    *("README.md", "components/pyproject.toml", "devcluster/pyproject.toml", "image/*Containerfile"),
    *(".github", ".pre-commit-hooks.yaml", "docs", "examples", "stacks", ":!docs/adr"),
)
"""As pathspecs of git. `deploy/olm` is rendered; tests name versions of their own."""


def version() -> str:
    """The project's."""
    match = _SOURCE.search((ROOT / SOURCE).read_text(encoding="utf-8"))
    if match is None:
        raise ValueError(f"{SOURCE} has no line __version__ = 'X.Y.Z'")
    return match["version"]


def next_patch(release: str) -> str:
    """The version that the pages about an upgrade go to: 0.2.1 after 0.2.0."""
    major, minor, patch = release.split(".")
    return f"{major}.{minor}.{int(patch) + 1}"


def files() -> list[Path]:
    """The files that may have copies, relative to the checkout."""
    command = ["git", "ls-files", "--", *WITH_COPIES]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [Path(name) for name in listed if Path(name).suffix not in (".png", ".svg", ".sum")]


def copies(path: Path, text: str) -> Iterator[tuple[int, int]]:
    """Where in the text of a file versions of this project begin and end."""
    yield from (match.span("version") for match in _COPIES.finditer(text))
    if pattern := _IN_LINES.get(path):
        yield from (match.span("version") for match in pattern.finditer(text))


def wanted(path: Path, release: str) -> str:
    """What the copies of a file have to say."""
    return next_patch(release) if path == UPGRADE else release


def disagreeing(release: str) -> list[str]:
    """One line per copy that says another version."""
    lines = []
    for path in files():
        text = (ROOT / path).read_text(encoding="utf-8")
        for begin, end in sorted(copies(path, text)):
            if text[begin:end] != wanted(path, release):
                line = text.count("\n", 0, begin) + 1
                lines.append(f"{path}:{line}: says {text[begin:end]}, not {wanted(path, release)}")
    return lines


def write(release: str) -> None:
    """Write a version to the source and to all copies."""
    source = ROOT / SOURCE
    source.write_text(_SOURCE.sub(f'__version__ = "{release}"', source.read_text(encoding="utf-8")), encoding="utf-8")
    for path in files():
        text = (ROOT / path).read_text(encoding="utf-8")
        written = text
        for begin, end in sorted(copies(path, text), reverse=True):
            written = written[:begin] + wanted(path, release) + written[end:]
        if written != text:
            (ROOT / path).write_text(written, encoding="utf-8")


def main(argv: Sequence[str]) -> int:
    """Do as the options say; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--check", action="store_true", help="name the copies that say another version")
    choice.add_argument("--set", metavar="X.Y.Z", help="write a version everywhere")
    options = parser.parse_args(argv)
    if options.set is not None:
        if not re.fullmatch(r"\d+\.\d+\.\d+", options.set):
            parser.error(f"--set {options.set!r}: a version has three numbers, such as 0.3.0")
        write(options.set)
        print("version: written; now run `make olm`, and give CHANGELOG.md its section")
        return 0
    if options.check:
        lines = disagreeing(version())
        print("\n".join(lines), end="\n" if lines else "")
        return 1 if lines else 0
    print(version())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
