"""The program `rebalancer` of the image, also as `python -m secondary_scheduler.rebalancer`.

Apart from `app`, whose imports need the extra `scheduler`: a missing extra has to be reported by something that needs
none.
"""

import sys
from collections.abc import Sequence

from scheduler.extras import requires_extra


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; returns the exit code."""
    with requires_extra("rebalancer", "scheduler"):
        from secondary_scheduler.rebalancer.app import main as run

        return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
