"""A clash of top-level names said in one line: other distributions have a package `scheduler`, too."""

from __future__ import annotations

import importlib


def require_scheduler() -> None:
    """Import what the components share with the scheduler.

    Raises:
        ImportError: it is missing, or Python finds another package of this name first.
    """
    try:
        importlib.import_module("scheduler.catalog")
    except ModuleNotFoundError as error:
        if error.name not in ("scheduler", "scheduler.catalog"):
            raise
        raise ImportError(_reason()) from None


def _reason() -> str:
    try:
        package = importlib.import_module("scheduler")
    except ModuleNotFoundError:
        return "the package 'scheduler' of secondary-scheduler is missing; install secondary-scheduler"
    path = getattr(package, "__file__", None) or next(iter(package.__path__), "somewhere")
    return (
        f"the package 'scheduler' that Python finds first, {path}, is not that of secondary-scheduler; "
        "give this program an environment without it, or rename it"
    )


require_scheduler()

from scheduler.lazy import lazy_attributes as lazy_attributes  # noqa: E402 - whose scheduler it is, is known now
