"""`kube-scheduler`: the daemon's command."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon until it is told to stop; returns the exit code."""
    from scheduler.app import run

    return run(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
