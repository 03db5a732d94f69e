"""What a program says when a package that comes with its extra is not installed.

The wheel itself depends only on what the configuration model needs; each program brings its own packages as an extra.
Standard library only: this module must work where everything else is missing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

_OWN = ("scheduler", "secondary_scheduler")
"""A module of ours that cannot be found is a defect, not a missing extra: it keeps its traceback."""


@contextlib.contextmanager
def requires_extra(program: str, extra: str) -> Iterator[None]:
    """Turn a missing package into one line on stderr and exit code 1.

    It spans the whole run of a program and not only its first imports, as most packages are imported when they are
    needed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package in _OWN:
            raise
        sys.exit(
            f"{program}: the Python package {package!r} is not installed; it comes with the extra {extra!r}: "
            f"pip install 'secondary-scheduler[{extra}]'"
        )
