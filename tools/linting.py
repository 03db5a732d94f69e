"""What our own checks share: which files they read, how they report, and how they write a part of a file."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Finding = tuple[int, str]
"""Line and message."""


def run(check: Callable[[str, str], Iterable[Finding]], paths: list[str], *excluded: str) -> int:
    """Check files and print one line per finding; returns the exit code: 0 without findings, else 1.

    Args:
        check: gets a file's path, relative to the repository, and its text.
        paths: the files; where there are none, all Python files that git knows.
        excluded: folders that are left out then.
    """
    pathspecs = ["*.py", *(f":!{folder}" for folder in excluded)]
    command = ["git", "ls-files", *pathspecs]
    listed = paths or subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    findings = [
        f"{path}:{line}: {message}"
        for path in listed
        for line, message in sorted(check(path, (ROOT / path).read_text(encoding="utf-8")))
    ]
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


def between_marks(text: str, *parts: str, begin: str, end: str) -> str:
    """The text with these parts, each after its line that says where such a part begins."""
    before, *rest = text.split(begin)
    for part, between in zip(parts, rest, strict=True):
        indent = between[: between.index(end)].rpartition("\n")[2]
        before += f"{begin}{part}{indent}{between[between.index(end) :]}"
    return before
