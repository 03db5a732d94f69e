"""The program `secondary-scheduler-operator`, also as `python -m secondary_scheduler.operator`.

Apart from `app`, whose imports need the extra `operator`: a missing extra has to be reported by something that needs
none.
"""

import sys
from collections.abc import Sequence

from scheduler.extras import requires_extra


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator until it is told to stop; returns the exit code."""
    with requires_extra("secondary-scheduler-operator", "operator"):
        from secondary_scheduler.operator.app import main as run

        return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
