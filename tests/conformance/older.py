"""What kube-scheduler before 1.34 is known to answer otherwise than ours, which behaves as 1.34 beside it.

A row per minor, each made of the one after it. `aligned` puts both answers into 1.34's terms, so that only differences
that no row names are left. Rows were read from k8s.io/kubernetes 1.33.13, 1.32.13, 1.30.14 and 1.29.6, and from the
changes of 1.31; paths are below pkg/scheduler there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.conformance.case import BOUND, UNSCHEDULABLE, Answer, Json

MESSAGE = "message"
_NO_CLAIMS = "no new claims to deallocate,"
_PREEMPTION = " preemption: "
_NO_STATE = ". not found"
_FRAME = re.compile(r"(\d+/\d+ nodes are available:)(?: (.*)\.)?", re.DOTALL)
_COUNTED = re.compile(r"(\d+) (.*)", re.DOTALL)
_HOPELESS = "Preemption is not helpful for scheduling"


@dataclass(frozen=True)
class OlderVersion:
    """How a minor differs from 1.34.

    Attributes:
        minor: of Kubernetes 1.x.
        words: pattern of a reason -> its words in 1.34; several may mean the same reason.
        unsaid: patterns of reasons that 1.34 adds for nodes about which this version says nothing.
        scores: plugin -> whether this version scores a pod otherwise, by the pod and whether ours has scores of it.
        unasked: feature -> why it is not asked: the decisions differ.
    """

    minor: int
    words: Mapping[str, str]
    unsaid: tuple[str, ...] = ()
    scores: Mapping[str, Callable[[Json, bool], bool]] = field(default_factory=dict)
    unasked: Mapping[str, str] = field(default_factory=dict)


_MERGED = "a term's namespaceSelector is evaluated once (framework/plugins/interpodaffinity/plugin.go), as since 1.37"
_1_33 = OlderVersion(
    33,
    words={
        # framework/plugins/tainttoleration/taint_toleration.go
        r"node\(s\) had untolerated taint \{.*\}": "node(s) had untolerated taint(s)",
        # framework/plugins/volumerestrictions/volume_restrictions.go
        "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode": (
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
            "by another pod"
        ),
        # framework/plugins/noderesources/fit.go: since 1.34, a request that exceeds what the node has rules it out for
        # preemption, too.
        "No preemption victims found for incoming pod": _HOPELESS,
    },
    unasked=dict.fromkeys(("affinity-namespaces", "anti-affinity-namespaces", "preferred-namespaces"), _MERGED),
)
_1_32 = replace(
    _1_33,
    minor=32,
    words={
        **_1_33.words,
        # framework/plugins/volumebinding/binder.go
        r"node\(s\) had volume node affinity conflict": "node(s) didn't match PersistentVolume's node affinity",
    },
    # framework/plugins/noderesources/balanced_allocation.go: pods without requests are scored.
    scores={"NodeResourcesBalancedAllocation": lambda _pod, scored: not scored},
    unasked={
        **_1_33.unasked,
        "resized": "InPlacePodVerticalScaling is off: what the kubelet allocated does not count",
        # framework/plugins/nodeports/node_ports.go; up to 1.30 framework/types.go, calculateResource.
        "sidecars": "host ports of sidecars do not count, and up to 1.30 a node's sums for scores leave sidecars out",
    },
)
_1_31 = replace(
    _1_32,
    minor=31,
    # schedule_one.go, findNodesThatFitPod: nodes outside a PreFilterResult have no status.
    unsaid=(r"node\(s\) didn't satisfy plugin\(s\) \[.*\]",),
    unasked={
        **_1_32.unasked,
        "volumes-attached": "VolumeAttachments are not counted (framework/plugins/nodevolumelimits/csi.go)",
    },
)
_1_30 = replace(
    _1_31,
    minor=30,
    unasked={
        **_1_31.unasked,
        "volumes-migrated": "Portworx volumes are not migrated; EBSLimits, GCEPDLimits and AzureDiskLimits count",
        # pkg/registry/core/persistentvolume/strategy.go drops the field of claims only, and the scheduler ignores it.
        "volumes-attributes": "a PersistentVolume with a volumeAttributesClassName suits any claim",
    },
)
_1_29 = replace(
    _1_30,
    minor=29,
    scores={
        **_1_30.scores,
        # framework/plugins/imagelocality/image_locality.go: images of init containers do not count.
        "ImageLocality": lambda pod, _scored: bool(pod["spec"].get("initContainers")),
        # framework/plugins/nodeaffinity/node_affinity.go: a pod without preferences gets 0 everywhere, not no score.
        "NodeAffinity": lambda _pod, scored: not scored,
    },
)
OLDER_VERSIONS: Mapping[int, OlderVersion] = {row.minor: row for row in (_1_29, _1_30, _1_31, _1_32, _1_33)}
"""By minor, oldest first."""


def aligned(older: OlderVersion, pod: Json, real: Answer, ours: Answer) -> tuple[Answer, Answer, frozenset[str]]:
    """Both answers about a pod in 1.34's terms, and the names of the differences that this leaves out.

    These are `MESSAGE` and names of plugins.
    """
    if real.outcome != ours.outcome:
        return real, ours, frozenset()
    if real.outcome == UNSCHEDULABLE:
        same = real.message == ours.message
        messages = _without_preemption(real.message, ours.message)
        real, ours = (
            replace(answer, message=_in_new_words(older, message))
            for answer, message in zip((real, ours), messages, strict=True)
        )
        return real, ours, frozenset() if same or real.message != ours.message else frozenset({MESSAGE})
    if real.outcome == BOUND and real.scores.keys() == ours.scores.keys():
        return real, *_with_their_scores(older, pod, real, ours)
    return real, ours, frozenset()


def _with_their_scores(older: OlderVersion, pod: Json, real: Answer, ours: Answer) -> tuple[Answer, frozenset[str]]:
    """Ours with the real scheduler's scores of the plugins that score this pod otherwise, and these plugins."""
    plugins = frozenset(
        plugin
        for plugin, differs in older.scores.items()
        if differs(pod, any(plugin in row for row in ours.scores.values()))
        and any(row.get(plugin) != ours.scores[node].get(plugin) for node, row in real.scores.items())
    )
    if not plugins:
        return ours, plugins
    scores = {node: dict(row) for node, row in ours.scores.items()}
    totals = dict(ours.totals)
    for node, theirs in real.scores.items():
        for plugin in plugins:
            totals[node] += theirs.get(plugin, 0) - scores[node].get(plugin, 0)
            scores[node][plugin] = theirs.get(plugin, 0)
    highest = max(totals.values())
    best = frozenset(node for node, total in totals.items() if total == highest)
    return replace(ours, scores=scores, totals=totals, best=best, node=min(best)), plugins


def _without_preemption(real: str, ours: str) -> tuple[str, str]:
    """Both messages without what they say about preemption, where 1.34 says another thing or nothing about it.

    A PreFilter that rejects a pod leaves no state to PostFilter of DynamicResources, which is on since 1.34 and ends
    preemption with an error (dynamicresources.go). And since 1.34 no victims are tried on a node that is too small
    (noderesources/fit.go), so that its shortages are not counted again.
    """
    before, _, about_preemption = real.partition(_PREEMPTION)
    if ours.endswith(_NO_STATE):
        return before, ours.removesuffix(_NO_STATE) + "."
    if "Insufficient" in about_preemption:
        return before, ours.partition(f" {_NO_CLAIMS}")[0].partition(_PREEMPTION)[0]
    return real, ours


def _in_new_words(older: OlderVersion, message: str) -> str:
    parts = message.replace(f"{_NO_CLAIMS}{_PREEMPTION}", _PREEMPTION.lstrip()).split(_PREEMPTION)
    return _PREEMPTION.join(_frame_in_new_words(older, part) for part in parts)


def _frame_in_new_words(older: OlderVersion, part: str) -> str:
    frame = _FRAME.fullmatch(part)
    if frame is None or frame[2] is None:
        return part
    counts: Counter[str] = Counter()
    uncounted = []
    for reason in re.split(r", (?=\d+ )", frame[2]):
        counted = _COUNTED.fullmatch(reason)
        if counted is None:
            uncounted.append(_reworded(older, reason))
        elif not any(re.fullmatch(pattern, counted[2]) for pattern in older.unsaid):
            counts[_reworded(older, counted[2])] += int(counted[1])
    reasons = ", ".join([*uncounted, *sorted(f"{count} {reason}" for reason, count in counts.items())])
    return f"{frame[1]} {reasons}." if reasons else frame[1]


def _reworded(older: OlderVersion, reason: str) -> str:
    for pattern, words in older.words.items():
        if re.fullmatch(pattern, reason, re.DOTALL):
            return words
    return reason
