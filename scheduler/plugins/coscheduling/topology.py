"""What a PodGroup asks, in annotations, of the topology: how close to each other its members have to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from scheduler.catalog import is_qualified_name, parse_duration
from scheduler.framework import GangSlice, GangTopology, PodInfo
from scheduler.helpers.annotations import shown

PREFIX: Final = "secondary-scheduler.io/topology-"
REQUIRED: Final = PREFIX + "required"
"""The label of nodes of which all members must have one value."""
PREFERRED: Final = PREFIX + "preferred"
"""Labels, the narrowest first, separated by commas: the first of which one value has room for all members."""
WIDEN_AFTER: Final = PREFIX + "widen-after"
"""How long, as a Go duration, the gang waits at each preferred level before the next is tried."""
SLICE: Final = PREFIX + "slice"
"""The label of nodes of which the members of each slice must have one value."""
SLICE_SIZE: Final = PREFIX + "slice-size"
"""How many members are a slice, by rank."""
RANK_LABEL: Final = PREFIX + "rank-label"
"""The label of pods that says a member's rank, from 0."""
_KNOWN: Final = frozenset({REQUIRED, PREFERRED, WIDEN_AFTER, SLICE, SLICE_SIZE, RANK_LABEL})
_RANK_LABELS: Final = (
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
)
"""Labels by which workloads of others number their pods."""
_MAX_RANK: Final = 1 << 31
_MAX_LEVELS: Final = 8


class GroupTopology(Struct, frozen=True):
    """What a group asks for.

    Attributes:
        levels: labels of nodes, the narrowest first.
        required: whether the last of them must hold; else any nodes will do in the end.
        widen_after: seconds at each level, before the next is tried.
        slice_label, slice_size: so many members by rank go to one domain of that label; "" and 0 without slices.
        rank_label: of pods; "" takes the first that a pod has of those that are known.
    """

    levels: tuple[str, ...]
    required: bool
    widen_after: float = 0.0
    slice_label: str = ""
    slice_size: int = 0
    rank_label: str = ""

    def after(self, waited: float, nodes: tuple[str, ...], slices: tuple[GangSlice, ...] = ()) -> GangTopology:
        """Return where members may go now. Once some have nodes, others follow them without waiting.

        Args:
            waited: seconds since the gang was first found not to fit.
            nodes: of members that have one.
            slices: as `slices_of` returns them.
        """
        count = len(self.levels) + (not self.required)
        if self.widen_after and not nodes:
            count = min(count, 1 + int(waited / self.widen_after))
        levels, anywhere = self.levels[:count], count > len(self.levels)
        return GangTopology(levels, anywhere, nodes, slice_label=self.slice_label, slices=slices)

    def slices_of(self, waiting: Iterable[PodInfo], placed: Iterable[tuple[PodInfo, str]]) -> tuple[GangSlice, ...]:
        """Return the slices with members that wait, by rank.

        Args:
            waiting: members without a node.
            placed: those that have one, with it.

        Raises:
            ValueError: a member has no rank, or shares it with another one.
        """
        uids: dict[int, list[str]] = {}
        nodes: dict[int, list[str]] = {}
        ranks: dict[int, PodInfo] = {}
        for pod, node in [*[(pod, "") for pod in waiting], *placed]:
            rank = self._rank(pod)
            if (other := ranks.setdefault(rank, pod)) is not pod:
                raise ValueError(f"pods {other.name} and {pod.name} have rank {rank}: give each member its own")
            (nodes if node else uids).setdefault(rank // self.slice_size, []).append(node or pod.uid)
        return tuple(
            [GangSlice(frozenset(uids[index]), tuple(dict.fromkeys(nodes.get(index, ())))) for index in sorted(uids)]
        )

    def _rank(self, pod: PodInfo) -> int:
        labels = (self.rank_label,) if self.rank_label else _RANK_LABELS
        text = next((pod.labels[label] for label in labels if label in pod.labels), None)
        if text is None:
            raise ValueError(f"pod {pod.name} has no label {' nor '.join(labels)}, which says its rank in a slice")
        if not (text.isascii() and text.isdigit()) or int(text[:12]) >= _MAX_RANK:
            raise ValueError(f"pod {pod.name}: {shown(text)} is no rank: a whole number from 0")
        return int(text)

    @property
    def widest_after(self) -> float:
        """Seconds after which all levels are tried."""
        return self.widen_after * (len(self.levels) - self.required)


def read_topology(annotations: Mapping[str, str]) -> GroupTopology | None:
    """Return what annotations ask for; None where they ask for nothing.

    Raises:
        ValueError: an annotation of ours is unknown or cannot be used: what, why, and what to do.
    """
    ours = {key: value for key, value in annotations.items() if key.startswith(PREFIX)}
    if not ours:
        return None
    unknown = sorted(ours.keys() - _KNOWN)
    if unknown:
        raise ValueError(f"annotation {shown(unknown[0])} is unknown: known are {', '.join(sorted(_KNOWN))}")
    required = [_label(REQUIRED, ours[REQUIRED])] if REQUIRED in ours else []
    parts = ours[PREFERRED].split(",", _MAX_LEVELS) if PREFERRED in ours else []
    if len(parts) + len(required) > _MAX_LEVELS:
        raise ValueError(f"annotation {PREFERRED} lists too many labels: at most {_MAX_LEVELS} levels are tried")
    preferred = [_label(PREFERRED, part) for part in parts]
    levels = tuple(preferred + required)
    if WIDEN_AFTER in ours and not preferred:
        raise ValueError(f"annotation {WIDEN_AFTER} needs {PREFERRED}")
    if len(set(levels)) < len(levels):
        twice = next(label for label in levels if levels.count(label) > 1)
        raise ValueError(f"label {shown(twice)} is named twice in {PREFERRED} and {REQUIRED}: name each level once")
    widen_after = _seconds(ours[WIDEN_AFTER]) if WIDEN_AFTER in ours else 0.0
    return GroupTopology(levels, bool(required), widen_after, *_slices(ours))


def _slices(ours: Mapping[str, str]) -> tuple[str, int, str]:
    """Read the label, the size and the label of ranks of slices."""
    if SLICE not in ours:
        alone = next((key for key in (SLICE_SIZE, RANK_LABEL) if key in ours), "")
        if alone:
            raise ValueError(f"annotation {alone} needs {SLICE}")
        return "", 0, ""
    size = ours.get(SLICE_SIZE, "").strip()
    if not (size.isascii() and size.isdigit() and len(size) < 7 and int(size) > 0):
        raise ValueError(f"annotation {SLICE} needs {SLICE_SIZE}, a whole number from 1: {shown(size)}")
    rank_label = _label(RANK_LABEL, ours[RANK_LABEL]) if RANK_LABEL in ours else ""
    return _label(SLICE, ours[SLICE]), int(size), rank_label


def _label(annotation: str, text: str) -> str:
    label = text.strip()
    if not is_qualified_name(label):
        raise ValueError(f"annotation {annotation}: {shown(label)} is no label key: name a label of nodes")
    return label


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text.strip())
    except ValueError as error:
        raise ValueError(f"annotation {WIDEN_AFTER}: {shown(str(error))}") from None
    if seconds < 0:
        raise ValueError(f"annotation {WIDEN_AFTER}: {shown(text)} is negative")
    return seconds
