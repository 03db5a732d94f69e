"""The program `secondary-scheduler-page` of the image, also as `python -m secondary_scheduler.page`.

Apart from `app`, whose imports need the extra `page`: a missing extra has to be reported by something that needs none.
"""

import sys
from collections.abc import Sequence

from scheduler.extras import requires_extra


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; returns the exit code."""
    with requires_extra("secondary-scheduler-page", "page"):
        from secondary_scheduler.page.app import main as run

        return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
