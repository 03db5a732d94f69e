"""Where upstream's sources are edited, by pattern: `Scheduler.Run` asks `bridge/scheduler.go` what to run, its queue
does not ask plugins that the other scheduler asks, and helpers that wait for its cache give the other one a moment
more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import BinaryError

BRIDGE = Path(__file__).parent / "bridge"
ADDED = {
    "pkg/scheduler/judged.go": BRIDGE / "scheduler.go",
    "pkg/scheduler/judgedplugins.go": BRIDGE / "plugins.go",
    "pkg/scheduler/framework/runtime/judged.go": BRIDGE / "profiles.go",
    "cmd/kube-scheduler/app/testing/judged.go": BRIDGE / "serving.go",
}
"""Files of ours, by the place in the module that they get."""


@dataclass(frozen=True)
class Edit:
    """A replacement in every file that `files` matches; `needed`: it must be found in each."""

    files: str
    pattern: str
    replacement: str
    needed: bool = True


EDITS = (
    # Before New builds the extenders, which change the profiles.
    Edit("pkg/scheduler/scheduler.go", r"(?m)^\tmetrics\.Register\(\)$", r"\tjudged := keepOptions(options)\n\g<0>"),
    Edit("pkg/scheduler/scheduler.go", r"(?m)^\tsched\.applyDefaultHandlers\(\)$", r"\g<0>\n\tjudged.belongsTo(sched)"),
    Edit(
        "pkg/scheduler/scheduler.go",
        r"(?m)^(\s*)go (wait\.\w+\(ctx, sched\.ScheduleOne, 0\))$",
        r"\1go sched.schedule(ctx, func() { \2 })",
    ),
    Edit("pkg/scheduler/scheduler.go", r"\bprofile\.PreEnqueuePlugins\(\)", r"leftToGo(\g<0>)"),
    # A test goes on when the scheduler is ready, as it does at once with the Go one.
    Edit(
        "test/integration/**/*.go",
        r"(?m)^(\s*)go (\w+\.Scheduler|sched)\.Run\(([\w.]+)\)$",
        r"\g<0>\n\1\2.AwaitReady()",
        needed=False,
    ),
    Edit(
        "test/integration/util/util.go",
        r"(?m)^func \w*InCache\(ctx context\.Context, sched .*\{$",
        r"\g<0>\n\tdefer sched.Settle()",
    ),
    Edit(
        "test/integration/util/util.go",
        r"(?m)^func Wait\w*Cached\w*\(testCtx \*TestContext.*\{$",
        r"\g<0>\n\tdefer testCtx.Scheduler.Settle()",
    ),
    Edit(
        "test/integration/util/util.go",
        r"(?m)^func WaitForSchedulerCacheCleanup\(.*\{$",
        r"\g<0>\n\tdefer sched.Settle()",
    ),
    Edit(
        "cmd/kube-scheduler/app/testing/testserver.go",
        r"(?m)^func StartTestServer\((?:t \*testing\.T, )?ctx context\.Context, (\w+) \[\]string\).*\{$",
        r"\g<0>\n\tif scheduler.JudgedIsChosen() {\n\t\treturn startJudged(ctx, \1)\n\t}",
    ),
    Edit(
        "cmd/kube-scheduler/app/testing/testserver.go",
        r"(?m)^import \($",
        r'\g<0>\n\t"k8s.io/kubernetes/pkg/scheduler"',
    ),
)


def replaced(module: Path, wanted: Iterable[Edit] = EDITS) -> dict[str, str]:
    """The new text of every file of the module that is edited, by path. Raises BinaryError where a pattern that is
    needed finds nothing: upstream has changed there."""
    texts: dict[str, str] = {}
    for edit in wanted:
        for file in sorted(module.glob(edit.files)):
            path = str(file.relative_to(module))
            text, count = re.subn(edit.pattern, edit.replacement, texts.get(path) or file.read_text())
            if count:
                texts[path] = text
            elif edit.needed:
                raise BinaryError(
                    f"{path} of {module.name}: nothing matches {edit.pattern}: change tests/upstream/edits.py"
                )
    return texts
