"""What a PodGroup asks, in annotations, of the topology: how close to each other its members have to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from scheduler.catalog import is_qualified_name, parse_duration
from scheduler.framework import GangTopology
from scheduler.kube.model import PodGroup

PREFIX: Final = "secondary-scheduler.io/topology-"
REQUIRED: Final = PREFIX + "required"
"""The label of nodes of which all members must have one value."""
PREFERRED: Final = PREFIX + "preferred"
"""Labels, the narrowest first, separated by commas: the first of which one value has room for all members."""
WIDEN_AFTER: Final = PREFIX + "widen-after"
"""How long, as a Go duration, the gang waits at each preferred level before the next is tried."""
_KNOWN: Final = frozenset({REQUIRED, PREFERRED, WIDEN_AFTER})
_MAX_LEVELS: Final = 8
_MAX_SHOWN: Final = 80
_MAX_REMEMBERED: Final = 10_000


class GroupTopology(Struct, frozen=True):
    """What a group asks for.

    Attributes:
        levels: labels of nodes, the narrowest first.
        required: whether the last of them must hold; else any nodes will do in the end.
        widen_after: seconds at each level, before the next is tried.
    """

    levels: tuple[str, ...]
    required: bool
    widen_after: float = 0.0

    def after(self, waited: float, nodes: tuple[str, ...]) -> GangTopology:
        """Return where members may go now.

        Args:
            waited: seconds since the gang was first found not to fit.
            nodes: of members that have one.
        """
        count = len(self.levels) + (not self.required)
        if self.widen_after and not nodes:
            count = min(count, 1 + int(waited / self.widen_after))
        return GangTopology(self.levels[:count], count > len(self.levels), nodes)

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
        raise ValueError(f"annotation {_shown(unknown[0])} is unknown: known are {', '.join(sorted(_KNOWN))}")
    required = [_label(REQUIRED, ours[REQUIRED])] if REQUIRED in ours else []
    parts = ours[PREFERRED].split(",", _MAX_LEVELS) if PREFERRED in ours else []
    if len(parts) + len(required) > _MAX_LEVELS:
        raise ValueError(f"annotation {PREFERRED} lists too many labels: at most {_MAX_LEVELS} levels are tried")
    preferred = [_label(PREFERRED, part) for part in parts]
    levels = tuple(preferred + required)
    if not levels:
        raise ValueError(f"annotation {WIDEN_AFTER} needs {PREFERRED}")
    if len(set(levels)) < len(levels):
        twice = next(label for label in levels if levels.count(label) > 1)
        raise ValueError(f"label {_shown(twice)} is named twice in {PREFERRED} and {REQUIRED}: name each level once")
    return GroupTopology(levels, bool(required), _seconds(ours[WIDEN_AFTER]) if WIDEN_AFTER in ours else 0.0)


def _label(annotation: str, text: str) -> str:
    label = text.strip()
    if not is_qualified_name(label):
        raise ValueError(f"annotation {annotation}: {_shown(label)} is no label key: name a label of nodes")
    return label


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text.strip())
    except ValueError as error:
        raise ValueError(f"annotation {WIDEN_AFTER}: {_shown(str(error))}") from None
    if seconds < 0:
        raise ValueError(f"annotation {WIDEN_AFTER}: {_shown(text)} is negative")
    return seconds


def _shown(text: str) -> str:
    """Return somebody's text as a message can hold it."""
    short = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
    return "".join(char if char.isprintable() else "?" for char in short) or '""'


class Topologies:
    """Those of groups, each read once as long as it does not change."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Mapping[str, str], GroupTopology | None, str]] = {}

    def of(self, group: PodGroup) -> tuple[GroupTopology | None, str]:
        """Return what a group asks for, or why it cannot be told."""
        annotations = group.metadata.annotations
        if not annotations:
            return None, ""
        known = self._read.get(group.metadata.key)
        if known is not None and known[0] is annotations:
            return known[1], known[2]
        try:
            topology, problem = read_topology(annotations), ""
        except ValueError as error:
            topology, problem = None, str(error)
        if len(self._read) >= _MAX_REMEMBERED:
            self._read.clear()
        self._read[group.metadata.key] = annotations, topology, problem
        return topology, problem
