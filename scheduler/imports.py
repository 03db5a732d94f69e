"""Imports of libraries without the parts of them that no daemon needs: a start waits for each."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

_FOR_COLORS: Final = ("rich", "colorama", "greenlet")
_FOR_GUESSING: Final = ("chardet", "charset_normalizer")
_NUMPY_TYPING: Final = "numpy._typing"


def import_structlog() -> None:
    """Import it without what it takes for colors and greenlets where they are installed: 80 ms."""
    with _in_place_of(dict.fromkeys(_FOR_COLORS)):
        import structlog  # noqa: F401


def import_numpy() -> None:
    """Import it without its types for annotations, of which numpy.linalg takes one word: 50 ms, half of all.

    `numpy.typing` can be imported later, as ever.
    """
    if "numpy" not in sys.modules:
        # Else OpenBLAS starts a thread for each further processor, which spins for 50 ms; we have no use for them.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with _in_place_of({_NUMPY_TYPING: _Typing(_NUMPY_TYPING)}):
            import numpy  # noqa: F401


def import_requests() -> None:
    """Import it without the libraries that guess the encoding of a text, which it does without where they are not
    installed: 8 to 14 ms. Sources answer in JSON, and guessing takes long for a large text that is made for it."""
    if "requests" not in sys.modules:
        # It warns of their absence.
        with _in_place_of(dict.fromkeys(_FOR_GUESSING)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import requests  # noqa: F401


class _Annotation:
    """What stands for NDArray: nobody reads it while the scheduler runs."""

    def __class_getitem__(cls, item: object) -> Any:
        return Any


class _Typing(ModuleType):
    """`numpy._typing` that knows NDArray; who asks it for anything else gets that from the module itself."""

    NDArray = _Annotation

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(_NUMPY_TYPING) is self:
            del sys.modules[_NUMPY_TYPING]
        return getattr(importlib.import_module(_NUMPY_TYPING), name)


@contextlib.contextmanager
def _in_place_of(modules: dict[str, ModuleType | None]) -> Iterator[None]:
    """Let imports find these instead of modules that have not been imported yet; None for one that is not there."""
    stand_ins = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(stand_ins)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name, module in stand_ins.items():
            if name in sys.modules and sys.modules[name] is module:
                del sys.modules[name]
