"""What is not run against ours, by name: it would pass or fail without saying anything of our scheduler."""

from __future__ import annotations

import re
from collections.abc import Mapping

_DRIVES = "drives the Go scheduler itself, one cycle at a time"

UNRUNNABLE: Mapping[str, Mapping[str, str]] = {
    "bind": {"TestDefaultBinder": "calls the Go framework's Bind plugins"},
    "eventhandler": {
        "TestUpdateNominatedNodeName": "turns a clock of the Go scheduler; ours waits the minute that it skips",
    },
    "plugins": {
        "TestPermitPluginsCancelled": "looks at the context that the Go framework gives to Permit",
        "TestQueueSortPlugin": "reads the Go scheduler's queue",
    },
    "preemption": {"TestAsyncPreemption": _DRIVES},
    "preemption/nominatednodename": {"TestPreferNominatedNode": "replaces a function of the Go scheduler"},
    "queueing": {
        "TestSchedulingGates": _DRIVES,
        "TestCustomResourceEnqueue": _DRIVES,
        "TestRequeueByPermitRejection": "is a race that the Go scheduler loses, too",
    },
    "queueing/former": {"TestCoreResourceEnqueueWithQueueingHints": _DRIVES},
    "queueing/queueinghint": {"TestCoreResourceEnqueue": _DRIVES},
}
"""By package: patterns of tests, with the reason."""


def is_unrunnable(package: str, test: str) -> bool:
    """Whether a test is left out with all its subtests."""
    return any(re.fullmatch(pattern, test) for pattern in UNRUNNABLE.get(package, {}))
