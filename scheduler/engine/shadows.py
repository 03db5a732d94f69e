"""Decisions of shadow profiles, compared with the live ones. They are never bound, and write nothing to the cluster.

A comparison recomputes the shadow's verdicts on the snapshot of the live decision, before anything else changes it. It
is made after the live decision, and takes at most a share of the processor's time. It is left out first: where many
pods wait, and beyond that share.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec
import structlog

from scheduler.answers import ShadowDifference, ShadowProfile, ShadowReport
from scheduler.core import Change, Placement, compare_decisions
from scheduler.engine.allowance import ProcessorAllowance
from scheduler.engine.decisionrecords import already_encoded
from scheduler.framework import Clocks, Extender, MonotonicSeconds, ProfileRunner
from scheduler.kube.primitives import format_seconds
from scheduler.observe import Metrics
from scheduler.state import Snapshot

SHADOW_SHARE: Final = 0.05
"""Of one processor's time, for comparisons; while pods wait, of the time that this process gets."""
LONG_QUEUE: Final = 100
"""Where so many pods are ready to be tried, nothing is compared."""
_BURST_SECONDS: Final = 0.05
_MAX_DIFFERENCES: Final = 500
_MAX_BYTES: Final = 4 << 20
_OUTCOMES: Final = {
    Change.SAME: "sameNode",
    Change.MOVED: "otherNode",
    Change.LOST: "onlyLivePlaced",
    Change.GAINED: "onlyShadowPlaced",
    Change.NEITHER: "neitherPlaced",
}
"""As the metric's label and `/debug/shadows` say it."""
_encode = msgspec.json.Encoder().encode
log = structlog.get_logger(component="shadows")


class Shadows:
    """Compares, counts and remembers. All methods run on the scheduling loop.

    Args:
        shadows: by the scheduler name of the live profile.
        clocks: of the process.
        metrics: where comparisons are counted.
        ready: returns how many pods are ready to be tried.
        extenders: those of the configuration, whom a shadow does not ask.
        chance: returns a number of 0 to 1, for samples.
        processor_time: returns the seconds that the process has used.
    """

    def __init__(
        self,
        shadows: Mapping[str, ProfileRunner],
        clocks: Clocks,
        metrics: Metrics,
        ready: Callable[[], int],
        extenders: Sequence[Extender] = (),
        *,
        chance: Callable[[], float] = random.random,
        processor_time: Callable[[], MonotonicSeconds] = lambda: MonotonicSeconds(time.process_time()),
    ) -> None:
        self._shadows = shadows
        self._clocks = clocks
        self._metrics = metrics
        self._ready = ready
        self._extenders = extenders
        self._chance = chance
        self._calm = ProcessorAllowance(SHADOW_SHARE, _BURST_SECONDS, clocks.monotonic)
        self._storm = ProcessorAllowance(SHADOW_SHARE, _BURST_SECONDS, processor_time, clocks.monotonic)
        # The last difference of each pod, by UID: a pod that is tried again and again has one.
        self._differences: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._bytes = 0

    @property
    def size(self) -> int:
        """Bytes that the remembered differences take."""
        return self._bytes

    def decided(self, snapshot: Snapshot, placement: Placement, live: ProfileRunner) -> None:
        """A decision was made on this snapshot, which has not changed since."""
        shadow = self._shadows.get(live.scheduler_name)
        if shadow is None:
            return
        skipped = self._reason_to_skip(placement, live)
        if skipped:
            self._metrics.shadow_skipped.labels(live.scheduler_name, skipped).inc()
            return
        began = time.perf_counter()
        try:
            self._compare(snapshot, placement, live, shadow)
        except Exception:
            # A defect of the shadow's plugins: the pod must not pay for the trial.
            self._metrics.shadow_skipped.labels(live.scheduler_name, "error").inc()
            log.exception("a shadow could not decide", pod=placement.pod.key, shadow=shadow.scheduler_name)
        finally:
            seconds = time.perf_counter() - began
            self._calm.spend(seconds)
            self._storm.spend(seconds)

    def _reason_to_skip(self, placement: Placement, live: ProfileRunner) -> str:
        options = live.options.shadow
        if options is not None and options.sample_ratio < 1.0 and self._chance() >= options.sample_ratio:
            return "sample"
        if placement.failure is not None:
            return "error"
        if any(extender.is_interested(placement.pod) for extender in self._extenders):
            return "extender"
        ready = self._ready()
        if ready >= LONG_QUEUE:
            return "queue"
        return "" if (self._storm if ready else self._calm).available() else "time"

    def _compare(self, snapshot: Snapshot, placement: Placement, live: ProfileRunner, shadow: ProfileRunner) -> None:
        compared = compare_decisions(snapshot, placement, live, shadow)
        names = live.scheduler_name, shadow.scheduler_name
        outcome = _OUTCOMES[compared.change]
        self._metrics.shadow_decisions.labels(*names, outcome).inc()
        if compared.score_loss:
            self._metrics.shadow_score_loss.labels(*names).inc(compared.score_loss)
        pod = placement.pod
        self._forget(pod.uid)
        if not compared.live:
            return
        difference = ShadowDifference(
            time=format_seconds(self._clocks.wall()),
            pod=pod.key,
            uid=pod.uid,
            scheduler_name=live.scheduler_name,
            shadow=shadow.scheduler_name,
            outcome=outcome,
            live_node=compared.live_node,
            shadow_node=compared.shadow_node,
            shadow_ties=compared.shadow_ties,
            shadow_message=compared.shadow_message,
            score_loss=compared.score_loss,
            live_judges=compared.live,
            shadow_judges=compared.shadow,
        )
        encoded = _encode(difference)
        self._differences[pod.uid] = pod.namespace, encoded
        self._bytes += len(encoded)
        while len(self._differences) > _MAX_DIFFERENCES or self._bytes > _MAX_BYTES:
            self._forget(next(iter(self._differences)))

    def _forget(self, uid: str) -> None:
        difference = self._differences.pop(uid, None)
        if difference is not None:
            self._bytes -= len(difference[1])

    def show(self, *, namespace: str | None, limit: int) -> ShadowReport:
        """Return the last differences of a namespace's pods, or of all, the newest first; and the counts of all."""
        differences = (
            already_encoded(encoded)
            for owner, encoded in reversed(self._differences.values())
            if namespace is None or owner == namespace
        )
        counts: dict[str, dict[str, int]] = {name: {} for name in self._shadows}
        for (profile, _, outcome), count in self._metrics.shadow_decisions.series():
            counts.setdefault(profile, {})[outcome] = int(count.value)
        profiles = (ShadowProfile(name, runner.scheduler_name, counts[name]) for name, runner in self._shadows.items())
        return ShadowReport(namespace=namespace, profiles=tuple(profiles), items=tuple(islice(differences, limit)))
