"""Refuses local names that do not say what they hold: `one`, `found`, `told`, `it`, `what` and their kind.

Checks assignments, loop variables and parameters; not attributes, nor keywords of other APIs.
Exit code: 0 without findings, else 1 with one line each: file:line: name.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from tools import linting

REFUSED = {
    *("one", "ones", "found", "told", "it", "what", "which", "who", "whom", "whose", "where", "here", "there"),
    *("them", "those", "thing", "things", "stuff", "said", "has", "few", "many", "both", "some"),
    *("asked", "made", "taken", "given"),
}


def refused_names(_path: str, source: str) -> Iterator[linting.Finding]:
    """Find every assignment to a refused name in a module's text."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        else:
            continue
        if name in REFUSED:
            yield node.lineno, f"the name {name!r} does not say what it holds"


if __name__ == "__main__":
    sys.exit(linting.run(refused_names, sys.argv[1:]))
