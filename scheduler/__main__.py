"""`kube-scheduler`: the daemon's command."""

import gc
import os
import sys
from collections.abc import Sequence

from scheduler.extras import requires_extra
from scheduler.imports import import_structlog

_GC_THRESHOLD_WHILE_STARTING = 1_000_000
"""Objects between two collections until the first lists are in: all that is made until then stays."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon until a signal; returns the exit code."""
    gc.set_threshold(_GC_THRESHOLD_WHILE_STARTING)
    # pydantic would read the metadata of every installed package to find plugins, and import what says it is one.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    with requires_extra("kube-scheduler", "scheduler"):
        import_structlog()
        from scheduler.app import run

        return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
