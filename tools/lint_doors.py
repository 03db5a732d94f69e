"""Refuses imports that reach behind a package's door: its `__init__` lists what is public.

import-linter cannot tell `from scheduler.core import decide` (a function) from the module of that name, so this is a
check of its own. Tests may look behind doors; `scheduler.helpers` is a shelf of topics, each module its own door.
Exit code: 0 when there is none, else 1 with one line per place.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from tools import linting

DOORS = (
    *("scheduler.kube.primitives", "scheduler.kube.model", "scheduler.kube.client"),
    *("scheduler.catalog", "scheduler.config", "scheduler.operand", "scheduler.framework", "scheduler.state"),
    *("scheduler.preemption", "scheduler.core", "scheduler.observe", "scheduler.load", "scheduler.engine"),
    *("secondary_scheduler.cli", "secondary_scheduler.operator", "secondary_scheduler.rebalancing"),
    *("components.settings",),
)
# The composition roots: a program's entry point is no API, and has to name the module that holds it.
PROGRAMS = frozenset({"secondary_scheduler.operator.app", "secondary_scheduler.cli.app"})


def imports_behind_doors(path: str, source: str) -> Iterator[linting.Finding]:
    """Find every import of a module that does not use the door."""
    module = path.removesuffix(".py").replace("/", ".")
    package = ".".join(module.split(".")[:2])
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom) or node.module is None or node.module in PROGRAMS:
            continue
        door = next((door for door in DOORS if node.module.startswith(f"{door}.")), None)
        # The parts of one package know each other; so do the layers of kube.
        if door is not None and not door.startswith(package) and not module.startswith(door):
            yield node.lineno, f"{node.module} is behind a door: import from {door}"


if __name__ == "__main__":
    sys.exit(linting.run(imports_behind_doors, sys.argv[1:], "tests"))
