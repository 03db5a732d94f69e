"""Doors that open a room only when somebody enters it.

Some packages hold modules that few of their users need and that import slowly: an HTTP library takes a tenth of a
second. Their `__init__` names such modules here instead of importing them. Imports nothing of the project.

A type checker gets the imports themselves, and not `__getattr__` (`if not TYPE_CHECKING`): with it, it would take any
name for one of the package's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_attributes(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, which imports a name's module when the name is first asked for.

    Args:
        package: the package's `__name__`.
        modules: by public name, the module of the package that holds it.
    """

    def __getattr__(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return __getattr__
