"""HighLoadFilter: no pod on a node that is, or with the pod would be, more loaded than a limit.

Proposed to scheduler-plugins (pull requests 992 and 993); no release has it yet. A node's predicted share is its
measured use plus what the pod requests, in per cent of what the node can allocate; it is rejected above
`usageThresholds`.

`compatibility: upstream` is the proposal. `safe` differs, see `SecondarySchedulerOptions.load.limit` and
docs/differences.md: requests of pods that are not measured yet count, every node's measurement has its own age, where
all nodes are above the limit it steps back, and no pod is preempted on account of it.

Without a usable measurement `failOpen` decides. A resource that is measured is judged though the other is not.
Counter: `stepped_back/HighLoadFilter` (attempts), by the core.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from msgspec import Struct

from scheduler import framework as fw
from scheduler.catalog import ActionType, HighLoadFilterArgs
from scheduler.helpers.staleness import is_load
from scheduler.helpers.unmeasured import UnmeasuredUse, requested

NAME = "HighLoadFilter"
UNAVAILABLE = "node real-load metrics are unavailable"
STALE = "node real-load metrics are stale"
CPU_EXCEEDS = "node predicted CPU utilization exceeds the HighLoadFilter threshold"
MEMORY_EXCEEDS = "node predicted memory utilization exceeds the HighLoadFilter threshold"
"""Upstream's texts."""
REASONS = (CPU_EXCEEDS, MEMORY_EXCEEDS, STALE, UNAVAILABLE)


class Share(NamedTuple):
    """The predicted shares of both resources, by row."""

    cpu: fw.FloatArray
    memory: fw.FloatArray


def predicted(measured: Any, amount: Any, allocatable: Any) -> Any:
    """Return the predicted share: measured plus an amount, of what can be allocated (predictedUsage).

    Any amount of what a node has none of is infinitely much.
    """
    if isinstance(allocatable, float):
        if allocatable > 0.0:
            return measured + 100.0 * amount / allocatable
        return measured + (np.inf if amount > 0.0 else 0.0)
    if allocatable.all():
        return measured + 100.0 * amount / allocatable
    divisor = np.where(allocatable > 0.0, allocatable, 1.0)
    beyond = np.where(np.asarray(amount) > 0.0, np.inf, 0.0)
    return np.where(
        np.isnan(measured), np.nan, measured + np.where(allocatable > 0.0, 100.0 * amount / divisor, beyond)
    )


class Thresholds(Struct, frozen=True):
    """The limit, and what happens where nothing is known."""

    cpu: float
    memory: float
    fail_open: bool

    @classmethod
    def of(cls, args: HighLoadFilterArgs) -> Thresholds:
        """Return the thresholds of some args."""
        return cls(float(args.usage_thresholds.cpu), float(args.usage_thresholds.memory), args.fail_open)

    def bits(self, share: Share, is_stale: fw.BoolArray) -> fw.IntArray:
        """Return, per row, the one reason for which it is rejected as a bit of `REASONS`; 0 for none.

        Upstream's order: what is measured is judged before anything is missed.
        """
        over_cpu, over_memory, *missing = self.masks(share.cpu, share.memory)
        bits = np.zeros(len(over_cpu), dtype=np.int64)
        for mask in missing:
            bits[mask] = np.where(is_stale[mask], 4, 8)
        bits[over_memory] = 2
        bits[over_cpu] = 1
        return bits

    def masks(self, cpu: Any, memory: Any) -> tuple[Any, ...]:
        """Return where these shares exceed the threshold of cpu, and of memory; and where one is not known, if that is
        a reason."""
        over = (cpu > self.cpu, memory > self.memory)
        return over if self.fail_open else (*over, (cpu != cpu) | (memory != memory))


def codes_of(bits: fw.IntArray, code: fw.Code) -> fw.CodeArray:
    """Return the code of each row that has a reason."""
    codes: fw.CodeArray = (bits != 0).astype(np.int8) * np.int8(code)
    return codes


class UsableLoad(NamedTuple):
    """What of one answer of a source may be used, by row of the view: shares, NaN where there is none; which rows have
    samples that are too old; how many do not, which tells which they are."""

    cpu: fw.FloatArray
    memory: fw.FloatArray
    is_stale: fw.BoolArray
    fresh: int


class Ageing:
    """Sorts out what may be used of a load; looks at all nodes only at a new answer, or when a sample gets too old."""

    def __init__(self, max_age: float) -> None:
        self.max_age = max_age
        self._key = (-1, -1)
        self._load: fw.LoadColumns | None = None
        self._seen_at = 0.0
        self._oldest = 0.0
        self._usable: UsableLoad | None = None

    def usable(self, view: fw.NodeView, load: fw.LoadColumns) -> UsableLoad:
        """Return what may be used at the view's time."""
        key = (view.membership, view.size)
        usable = self._usable
        is_known = load is self._load and key == self._key
        # No other sample gets too old before the oldest; a clock that is set back makes samples fresh again.
        if usable is None or not is_known or view.now < self._seen_at or self._is_over(view.now):
            usable = self._usable = self._look(view, load)
            self._load, self._key, self._seen_at = load, key, view.now
        return usable

    def _is_over(self, now: float) -> bool:
        return now - self._oldest > self.max_age

    def _look(self, view: fw.NodeView, load: fw.LoadColumns) -> UsableLoad:
        size = view.size
        sampled_at = load.sampled_at[:size]
        fresh = is_sampled(sampled_at, view.now, self.max_age)
        self._oldest = float(np.min(sampled_at, where=fresh, initial=np.inf))
        cpu, memory = (
            np.where(fresh & is_load(measured[:size]), measured[:size], np.nan)
            for measured in (load.cpu_average, load.memory_average)
        )
        return UsableLoad(cpu, memory, ~fresh & (sampled_at > 0.0), int(np.count_nonzero(fresh)))


def is_sampled(sampled_at: fw.FloatArray, now: float, max_age: float) -> fw.BoolArray:
    """Return whether samples may be used. Unlike elsewhere, a time that is not known is none: upstream's proposal takes
    an answer without a timestamp for unavailable."""
    sampled: fw.BoolArray = (sampled_at > 0.0) & fw.is_fresh(sampled_at, now, max_age)
    return sampled


# Which nodes were refused to which class of pods, so that a load that admits one of them is an event for its pods.

_BYTES = 4 << 20
_MIN_CLASSES = 64


class RefusedNodes:
    """By class of pods, the rows refused since the load was last read. Only the classes last seen are remembered."""

    def __init__(self) -> None:
        self._rows: OrderedDict[bytes, fw.BoolArray] = OrderedDict()
        self._versions: dict[bytes, int] = {}
        self._membership = -1
        self._answers: dict[bytes, bool] = {}
        self._answered_for: tuple[object, float] = (None, 0.0)

    def add(self, key: bytes, view: fw.NodeView, version: int, rows: fw.RowArray) -> None:
        """Note that rows are refused to a class by one answer of the load source, the version."""
        if view.membership != self._membership:
            self._rows.clear()
            self._versions.clear()
            self._membership = view.membership
        refused = self._rows.get(key)
        if refused is None or self._versions[key] != version or len(refused) != view.size:
            refused = self._rows[key] = np.zeros(view.size, dtype=np.bool_)
            self._versions[key] = version
        refused[rows] = True
        self._rows.move_to_end(key)
        while len(self._rows) > max(_MIN_CLASSES, _BYTES // max(view.size, 1)):
            oldest, _ = self._rows.popitem(last=False)
            del self._versions[oldest]

    def may_pass(self, key: bytes, view: fw.NodeView, any_passes: Callable[[fw.RowArray], bool]) -> bool:
        """Return whether a row that was refused to a class passes now; True where that is not known.

        A class is looked at once per view, however many of its pods wait.
        """
        if self._answered_for[0] is not view:
            self._answers.clear()
            self._answered_for = (view, view.now)
        answer = self._answers.get(key)
        if answer is None:
            refused = self._rows.get(key)
            known = refused is not None and view.membership == self._membership and len(refused) == view.size
            answer = not known or refused is None or any_passes(np.flatnonzero(refused))
            self._answers[key] = answer
        return answer


# Pods that the limit does not hold for: no other node can run them, so waiting would not help the busy one.

_HOSTNAME = "kubernetes.io/hostname"


class Exemptions:
    """Which pods `SecondarySchedulerOptions.load.limit.exempt` names.

    A pod of a DaemonSet is pinned by the DaemonSet controller. One that merely claims to be of a DaemonSet is not
    exempt: its owner would lift the limit by a line in the pod's metadata.
    """

    def __init__(self, exempt: Collection[str]) -> None:
        self._pinned = "pinned" in exempt
        self._daemon_sets = "DaemonSet" in exempt

    def cover(self, pod: fw.PodInfo) -> bool:
        """Return whether the limit does not hold for a pod."""
        exempt = self.cover_all(pod.spec)
        return _is_of_daemon_set(pod) if exempt is None else exempt

    def cover_all(self, spec: fw.SpecInfo) -> bool | None:
        """Return whether the limit does not hold for pods with a spec; None where that depends on who owns the pod."""
        if not (self._pinned or self._daemon_sets) or not is_pinned(spec):
            return False
        return True if self._pinned else None


def is_pinned(spec: fw.SpecInfo) -> bool:
    """Return whether a pod can run on one node only, as its spec names it: by name, or by host name."""
    if _HOSTNAME in spec.node_selector.required:
        return True
    if spec.required is None or not spec.required.terms:
        return False
    names: set[str] = set()
    for term in spec.required.terms:
        named = term.names
        if named is None:
            return False
        names |= named
    return len(names) == 1


def _is_of_daemon_set(pod: fw.PodInfo) -> bool:
    owner = pod.controller
    return owner is not None and owner.kind == "DaemonSet" and owner.api_version.startswith("apps/")


_ABOVE = 3
"""Bits of the reasons that are about a share, and not about a measurement that is missing."""


class HighLoadFilter(fw.PreFilterPlugin, fw.FilterPlugin, fw.YieldingFilter, fw.FilterRule, fw.EnqueueExtensions):
    """Reject nodes above the limit, unless that would leave none."""

    name = NAME

    def __init__(self, args: HighLoadFilterArgs, context: fw.PluginContext) -> None:
        options = context.options.load.limit
        self._thresholds = Thresholds.of(args)
        self._source = args.source_key()
        self._ageing = Ageing(float(args.node_metric_expiration_seconds))
        self._steps_back = options.when_all_exceed == "leaveOut"
        self._exemptions = Exemptions(options.exempt)
        self._counts_unmeasured = options.count_unmeasured
        self._unmeasured_cpu = UnmeasuredUse(requested("cpu"), upstream=False)
        self._unmeasured_memory = UnmeasuredUse(requested("memory"), upstream=False)
        self._refused = RefusedNodes()
        self._measured_until = -math.inf

    # Filtering ------------------------------------------------------------------------------------------------------

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Take no part for pods that are exempt."""
        return None, fw.SKIP if self._exemptions.cover(pod) else fw.SUCCESS

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes whose predicted share exceeds a threshold, or is not known and has to be."""
        if self._exemptions.cover(pod):
            return None
        share, is_stale = self._shares(view, pod.spec, rows)
        bits = self._thresholds.bits(share, is_stale)
        if state.read(NAME, bool):
            bits[(bits & _ABOVE) != 0] = 0
        if not bits.any():
            return None
        if not view.moved_rows:
            self._refused.add(pod.spec.class_key, view, self._load_version(view), rows[bits != 0])
        return fw.Verdicts(
            codes_of(bits, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
            bits,
            self._reasons(share, bits),
            lambda index: self._reasons_of_row(share, bits, index),
        )

    def step_back(self, state: fw.CycleState) -> bool:
        """Let nodes above the limit pass for the rest of an attempt, unless the options say otherwise."""
        if self._steps_back:
            state.write(NAME, True)
        return self._steps_back

    def _shares(self, view: fw.NodeView, spec: fw.SpecInfo, rows: fw.RowArray) -> tuple[Share, fw.BoolArray]:
        """Return the predicted shares, and which rows have a measurement that is too old."""
        load = view.load(self._source)
        if load is None:
            unknown = np.full(len(rows), np.nan)
            return Share(unknown, unknown), np.zeros(len(rows), dtype=np.bool_)
        self._measured_until = load.window_end - fw.REPORT_INTERVAL
        cpu, memory = fw.answers_of(partial(self._shares_rule, load), spec, view, rows)
        return Share(cpu, memory), self._ageing.usable(view, load).is_stale.take(rows)

    def _shares_rule(self, load: fw.LoadColumns, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule:
        """Return the predicted shares of cpu and memory, as a rule."""
        cpu_request, memory_request = (float(spec.requests.get(resource, 0)) for resource in ("cpu", "memory"))
        cpus, memories = nodes.allocatable("cpu"), nodes.allocatable("memory")
        cpu = nodes.of_pods(lambda view: self._ageing.usable(view, load).cpu)
        memory = nodes.of_pods(lambda view: self._ageing.usable(view, load).memory)
        more_cpu: fw.Reader = _nothing
        more_memory: fw.Reader = _nothing
        if self._counts_unmeasured:
            more_cpu = nodes.of_pods(lambda view: self._unmeasured_cpu.by_row(view, load))
            more_memory = nodes.of_pods(lambda view: self._unmeasured_memory.by_row(view, load))

        def shares(node: fw.Node) -> tuple[Any, Any]:
            return (
                predicted(cpu(node), more_cpu(node) + cpu_request, cpus(node)),
                predicted(memory(node), more_memory(node) + memory_request, memories(node)),
            )

        return shares

    def _reasons(self, share: Share, bits: fw.IntArray) -> tuple[str, ...]:
        """Return the reasons with the range of the shares that they stand for."""
        cpu, memory, *others = REASONS
        return (
            _with_shares(cpu, share.cpu[bits == 1], self._thresholds.cpu),
            _with_shares(memory, share.memory[bits == 2], self._thresholds.memory),
            *others,
        )

    def _reasons_of_row(self, share: Share, bits: fw.IntArray, index: int) -> tuple[str, ...]:
        own = slice(index, index + 1)
        reasons = self._reasons(Share(share.cpu[own], share.memory[own]), bits[own])
        return tuple(reason for bit, reason in enumerate(reasons) if int(bits[index]) >> bit & 1)

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Return what `filter` rejects, as a rule without the shares in its reasons."""
        exempt = self._exemptions.cover_all(spec)
        if exempt is not False:
            return fw.Reads.NOTHING if exempt else fw.Reads.ANYTHING
        load = nodes.load(self._source)
        if load is None:
            return fw.Reads.PODS
        nodes.value(self._fresh)
        shares, masks = self._shares_rule(load, spec, nodes), self._thresholds.masks
        return lambda node: masks(*shares(node))

    def _fresh(self, view: fw.NodeView) -> int:
        load = view.load(self._source)
        return -1 if load is None else self._ageing.usable(view, load).fresh

    def _load_version(self, view: fw.NodeView) -> int:
        load = view.load(self._source)
        return -1 if load is None else load.version

    # Waking ---------------------------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register a load that lets a refused node pass, recent pods that end, pods that shrink, and nodes."""
        return (
            fw.HintRegistration(fw.NODE_LOAD, ActionType.UPDATE, self._load_read),
            fw.HintRegistration(fw.ASSIGNED_POD, ActionType.DELETE, self._pod_deleted),
            fw.HintRegistration(fw.POD, ActionType.UPDATE_POD_SCALE_DOWN, self._pod_scaled_down),
            fw.HintRegistration(fw.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
        )

    def _load_read(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        view = cast(fw.NodeView, new)
        return (
            fw.Hint.QUEUE
            if self._refused.may_pass(pod.spec.class_key, view, self._passing(pod, view))
            else fw.Hint.SKIP
        )

    def _passing(self, pod: fw.PodInfo, view: fw.NodeView) -> Callable[[fw.RowArray], bool]:
        def any_passes(rows: fw.RowArray) -> bool:
            return not self._thresholds.bits(*self._shares(view, pod.spec, rows)).all()

        return any_passes

    def _pod_deleted(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        # Older ones are in the measurement, and the next one shows that they are gone.
        assert isinstance(old, fw.PodInfo)
        is_measured = not self._counts_unmeasured or old.assigned_at <= self._measured_until
        return fw.Hint.SKIP if is_measured else fw.Hint.QUEUE

    def _pod_scaled_down(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        return fw.Hint.QUEUE if isinstance(new, fw.PodInfo) and new.uid == pod.uid else fw.Hint.SKIP


def _nothing(node: fw.Node) -> float:
    return 0.0


def _with_shares(reason: str, shares: fw.FloatArray, threshold: float) -> str:
    """Return a reason with the range of the shares that exceed a threshold, rounded up."""
    if not len(shares):
        return reason
    low, high = _percent(float(shares.min())), _percent(float(shares.max()))
    return f"{reason} ({low if low == high else f'{low} to {high}'}, threshold {threshold:.0f}%)"


def _percent(share: float) -> str:
    return f"{math.ceil(share * 10 - 1e-6) / 10:.1f}%" if share < 1000.0 else "over 999%"


# HighLoadFilter as `compatibility: upstream` has it: pkg/highloadfilter of scheduler-plugins' pull request 993.
class UpstreamHighLoadFilter(fw.PreFilterPlugin, fw.FilterPlugin, fw.FilterRule):
    """One age for all nodes, and preemption is tried where a node is rejected."""

    name = NAME

    def __init__(self, args: HighLoadFilterArgs, context: fw.PluginContext) -> None:
        self._thresholds = Thresholds.of(args)
        self._source = args.source_key()
        self._max_age = float(args.node_metric_expiration_seconds)

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Go on: the load does not change while an attempt looks at it."""
        return None, fw.SUCCESS

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes whose predicted share exceeds a threshold."""
        problem, load = self._problem(view), view.load(self._source)
        if problem or load is None:
            if self._thresholds.fail_open:
                return None
            return fw.reject(np.ones(len(rows), dtype=np.bool_), fw.Code.UNSCHEDULABLE, problem)
        shares = []
        for measured, resource in ((load.cpu_average, "cpu"), (load.memory_average, "memory")):
            values = fw.gather(view, measured[: view.size], rows)
            known = np.where(is_load(values), values, np.nan)
            request = float(pod.spec.requests.get(resource, 0))
            shares.append(predicted(known, request, fw.gather(view, view.allocatable(resource), rows)))
        bits = self._thresholds.bits(Share(*shares), np.zeros(len(rows), dtype=np.bool_))
        return fw.Verdicts(codes_of(bits, fw.Code.UNSCHEDULABLE), bits, REASONS) if bits.any() else None

    def _problem(self, view: fw.NodeView) -> str:
        load = view.load(self._source)
        if load is None or load.timestamp <= 0.0:
            return UNAVAILABLE
        return "" if fw.is_fresh(load.timestamp, view.now, self._max_age) else STALE

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Verdicts follow from the load and from what the node can allocate."""
        nodes.load(self._source)
        nodes.value(self._problem)
        return fw.Reads.NODE


def high_load_filter(args: HighLoadFilterArgs, context: fw.PluginContext) -> HighLoadFilter | UpstreamHighLoadFilter:
    """Return the plugin as the profile's `compatibility` wants it."""
    return UpstreamHighLoadFilter(args, context) if context.upstream else HighLoadFilter(args, context)
