"""`kube-scheduler`: the daemon's command."""

import gc
import sys
from collections.abc import Sequence

from scheduler.extras import requires_extra

_GC_THRESHOLD_WHILE_STARTING = 1_000_000
"""Objects between two collections until the first lists are in: all that is made until then stays."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon until a signal; returns the exit code."""
    gc.set_threshold(_GC_THRESHOLD_WHILE_STARTING)
    with requires_extra("kube-scheduler", "scheduler"):
        _import_structlog()
        from scheduler.app import run

        return run(sys.argv[1:] if arguments is None else arguments)


def _import_structlog() -> None:
    """Import it without rich, which it takes for colours where it is installed: 70 ms for what no daemon shows."""
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


if __name__ == "__main__":
    sys.exit(main())
