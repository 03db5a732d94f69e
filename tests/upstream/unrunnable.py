"""What is not run against ours, by name: it would pass or fail without saying anything of our scheduler."""

from __future__ import annotations

import re
from collections.abc import Mapping

_DRIVES = "drives the Go scheduler itself, one cycle at a time"
_FOLLOWS = "chooses the gate {}, which with ours follows the version"

UNRUNNABLE: Mapping[str, Mapping[str, str]] = {
    "bind": {"TestDefaultBinder": "calls the Go framework's Bind plugins"},
    "eventhandler": {
        "TestUpdateNominatedNodeName/.*hints_enabled:_false.*": _FOLLOWS.format("SchedulerQueueingHints"),
    },
    "plugins": {
        "TestPermitPluginsCancelled": "looks at the context that the Go framework gives to Permit",
        "TestQueueSortPlugin": "reads the Go scheduler's queue",
    },
    "preemption": {"TestAsyncPreemption": _DRIVES},
    "preemption/nominatednodename": {"TestPreferNominatedNode": "replaces a function of the Go scheduler"},
    "queueing": {
        "TestCustomResourceEnqueue": _DRIVES,
        "TestRequeueByPermitRejection": "is a race that the Go scheduler loses, too",
    },
    "queueing/former": {"TestCoreResourceEnqueueWithQueueingHints": _FOLLOWS.format("SchedulerQueueingHints")},
    "queueing/queueinghint": {
        f"TestCoreResourceEnqueue/{plugins}/.*DRAExtendedResource_is_enabled": _FOLLOWS.format("DRAExtendedResource")
        for plugins in ("NodeResourcesFit", "NodeResourcesFit/NodeAffinity")
    },
}
"""By package: patterns of tests, or of subtests with a pattern for each part of the name, and the reason."""


def is_unrunnable(package: str, test: str) -> bool:
    """Whether a test is left out with all its subtests."""
    return any(re.fullmatch(pattern, test) for pattern in UNRUNNABLE.get(package, {}))


def skipped_subtests(package: str, test: str) -> str:
    """What `-test.skip` wants so that our side leaves out some subtests of the test; "" where it leaves out none."""
    patterns = (pattern.split("/") for pattern in UNRUNNABLE.get(package, {}))
    chosen = (parts for parts in patterns if len(parts) > 1 and re.fullmatch(parts[0], test))
    return "|".join("/".join(f"^({part})$" for part in parts) for parts in chosen)
