"""`SecondarySchedulerOptions`: what is ours and not upstream's.

It stands in `pluginConfig` under a name no Go binary has a plugin for; they ignore it, so one file serves both images.
"""

import re
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from scheduler.catalog.types import ArgsModel, Loc, StrictModel

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WINDOW = re.compile(r"([0-9]+(ms|[smhdwy]))+")


class LoadQueries(StrictModel):
    """PromQL templates; `$window` is replaced by the window. Results are ratios of 0..1 per node.

    `sampleTime` yields the time of each node's newest sample instead (seconds since the epoch), which its age follows
    from; without a result a value is as old as the answer.
    """

    cpu_average: str = "avg_over_time(instance:node_cpu:ratio[$window])"
    cpu_stddev: str = "stddev_over_time(instance:node_cpu:ratio[$window])"
    memory_average: str = "avg_over_time(instance:node_memory_utilisation:ratio[$window])"
    memory_stddev: str = "stddev_over_time(instance:node_memory_utilisation:ratio[$window])"
    sample_time: str = "max_over_time(timestamp(instance:node_cpu:ratio)[$window:15s])"


Fallback = Literal["requests", "leaveOut"]
"""What stands in for a node's load: what its pods request, or nothing, which neither favours nor disfavours it."""


class LoadOptions(StrictModel):
    """How load is read: credential files, how often, how long one query may take, how old it may be (seconds), over
    which window.

    A value is fresh, stale (older than `maxAgeSeconds`) or absent (never had, or no number). `whenStale` and
    `whenAbsent` say what happens on such a node beside others with fresh load; `whenNoneFresh` what happens where no
    node that the pod fits has fresh load: by default the plugin is left out of the attempt and the others decide.

    `nodeLabel` is the label of Prometheus' series that says which node they are of, by name or by address.
    """

    token_file: str | None = None
    ca_file: str | None = None
    refresh_seconds: int = 30
    timeout_seconds: int = 10
    max_age_seconds: int = 300
    when_stale: Fallback = "requests"
    when_absent: Fallback = "requests"
    when_none_fresh: Fallback = "leaveOut"
    window: str = "15m"
    node_label: str = "instance"
    queries: LoadQueries = Field(default_factory=LoadQueries)

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Positive times, a PromQL window and label."""
        if self.refresh_seconds < 1:
            yield ("refreshSeconds",), "must be at least 1"
        if self.timeout_seconds < 1:
            yield ("timeoutSeconds",), "must be at least 1"
        if self.max_age_seconds < self.refresh_seconds:
            yield ("maxAgeSeconds",), f"must be at least refreshSeconds ({self.refresh_seconds})"
        if not _LABEL.fullmatch(self.node_label):
            yield ("nodeLabel",), f'"{self.node_label}" is not a label name'
        if not _WINDOW.fullmatch(self.window):
            yield ("window",), f'"{self.window}" is not a PromQL duration such as 15m'


class SecondarySchedulerOptionsArgs(ArgsModel):
    """Options of this scheduler; `compatibility: upstream` turns every deliberate difference off."""

    compatibility: Literal["safe", "upstream"] = "safe"
    load: LoadOptions = Field(default_factory=LoadOptions)

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Check the load options."""
        for loc, message in self.load.check():
            yield ("load", *loc), message
