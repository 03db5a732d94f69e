"""Which tests run."""

import os

FULL = os.environ.get("FULL") == "1"
"""Whether this is `make test-all`."""
