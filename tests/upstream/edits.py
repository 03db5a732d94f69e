"""Where upstream's sources are edited, by pattern.

`Scheduler.Run` asks `bridge/scheduler.go` what to run, and `ScheduleOne` asks `bridge/queue.go`; the queue does not ask
plugins that the other scheduler asks. Helpers that wait for the Go scheduler's cache give the other one a moment more.
Tests share an API server (`bridge/apiserver.go`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import BinaryError
from tests.upstream.suites import KUBERNETES, PLUGINS

BRIDGE = Path(__file__).parent / "bridge"
ADDED: Mapping[str, Mapping[str, Path]] = {
    KUBERNETES: {
        "pkg/scheduler/judged.go": BRIDGE / "scheduler.go",
        "pkg/scheduler/judgedplugins.go": BRIDGE / "plugins.go",
        "pkg/scheduler/judgedqueue.go": BRIDGE / "queue.go",
        "pkg/scheduler/framework/runtime/judged.go": BRIDGE / "profiles.go",
        "cmd/kube-scheduler/app/testing/judged.go": BRIDGE / "serving.go",
        "test/integration/framework/judged.go": BRIDGE / "apiserver.go",
    },
    PLUGINS: {"test/integration/judged.go": BRIDGE / "schedulerplugins.go"},
}
"""Files of ours, by module and the place in it that they get."""


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
    # Newer versions have no such function, and no test takes pods by it there.
    Edit(
        "pkg/scheduler/scheduler.go",
        r"(?m)^(\tsched\.NextPod = )(\w+)\.Pop$",
        r"\1inItsOrder(judged, \2, \2.Pop)",
        needed=False,
    ),
    Edit("pkg/scheduler/scheduler.go", r"\bprofile\.PreEnqueuePlugins\(\)", r"leftToGo(\g<0>)"),
    # Tests that run no loop try pods themselves, one by one, and look for events in the metrics.
    Edit(
        "pkg/scheduler/schedule_one.go",
        r"(?m)^func \(sched \*Scheduler\) ScheduleOne\(ctx context\.Context\) \{$",
        r"\g<0>\n\tif sched.tryElsewhere(ctx) {\n\t\treturn\n\t}",
    ),
    Edit(
        "test/integration/scheduler/queueing/queue.go",
        r"(?m)^(\s*)legacyregistry\.Reset\(\).*$",
        r"\g<0>\n\1testCtx.Scheduler.ForgetEvents(testCtx.Ctx)",
    ),
    Edit(
        "test/integration/scheduler/queueing/queue.go",
        r"\blegacyregistry\.DefaultGatherer\b",
        r"testCtx.Scheduler.EventMetrics(\g<0>)",
    ),
    # Tests with the same feature gates share an API server.
    Edit(
        "test/integration/util/util.go",
        r"(?m)(= framework\.)StartTestServer\(tCtx, t, (framework\.TestServerSetup\{)$",
        r"\1StartSharedServer(tCtx, t, admission == nil, \2",
    ),
    # On a busy machine an API server takes longer to start.
    Edit("test/integration/framework/test_server.go", r"\b10\*time\.Second, ", "60*time.Second, "),
    # What they leave would keep upstream's search for leaked goroutines busy for ten minutes.
    Edit(
        "test/integration/framework/etcd.go",
        r"(?m)^(\s*)result := tests\(\)$",
        r"\g<0>\n\1stop()\n\1os.Exit(result)",
    ),
    # A process has no clock that a test could turn on.
    Edit(
        "test/integration/scheduler/eventhandler/eventhandler_test.go",
        r"(?m)^(\s*testBackoff := )(.+)$",
        r"\1scheduler.AwaitableBackoff(\2)",
    ),
    # A test goes on when the scheduler is ready, as it does at once with the Go one.
    Edit(
        "test/integration/**/*.go",
        r"(?m)^(\s*)go (\w+\.Scheduler|sched)\.Run\(([\w.]+)\)$",
        r"\g<0>\n\1\2.AwaitReady()",
        needed=False,
    ),
    # 1.37 runs the scheduler of `StartScheduler` in a function of its own.
    Edit(
        "test/integration/util/util.go",
        r"(?m)^(\t+)go func\(\) \{\n\t+sched\.Run\(\w+\)\n(?:.*\n)*?\1\}\(\)$",
        r"\g<0>\n\1sched.AwaitReady()",
        needed=False,
    ),
    # A module has no symbolic links, which these CRDs are upstream.
    Edit(
        "test/integration/main_test.go",
        r"(CRDDirectoryPaths: )(\[\]string\{\n.*\n\t+\}),\n",
        r"\1withDefinitions(\2),\n",
    ),
    Edit(
        "test/integration/scheduler/podgroup/stepsframework/*.go",
        r"(?m)^func createNodes\(testCtx .*\{$",
        r"\g<0>\n\tdefer testCtx.Scheduler.Settle()",
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
