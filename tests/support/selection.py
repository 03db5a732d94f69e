"""Which tests run."""

import os

FULL = os.environ.get("FULL") == "1"
"""Whether this is `make test-all`."""


def tries(number: int) -> int:
    """How many examples a property test tries: `number` in `make test-all`, which looks for new ones, and a third of
    that in `make test`, which tries the same ones each time."""
    return number if FULL else -(-number // 3)
