"""Refuses local names that do not say what they hold: `one`, `found`, `told`, `it`, `what` and their kind.

Checks assignments, loop variables and parameters; not attributes, nor keywords of other APIs.
Exit code: 0 without findings, else 1 with one line each: file:line: name.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFUSED = {
    *("one", "ones", "found", "told", "it", "what", "which", "who", "whom", "whose", "where", "here", "there"),
    *("them", "those", "thing", "things", "stuff", "said", "has", "few", "many", "both", "some"),
    *("asked", "made", "taken", "given"),
}


def refused_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every assignment to a refused name in a module's text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in REFUSED:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg) and node.arg in REFUSED:
            yield node.lineno, node.arg


def main(paths: list[str]) -> int:
    """Check the given files, or all Python files that git knows."""
    listed = (
        paths
        or subprocess.run(
            ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    )
    places = [
        f"{path}:{line}: the name {name!r} does not say what it holds"
        for path in listed
        for line, name in sorted(refused_names((ROOT / path).read_text(encoding="utf-8")))
    ]
    print("\n".join(places), end="\n" if places else "")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
