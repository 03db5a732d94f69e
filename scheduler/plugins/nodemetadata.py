"""NodeMetadata: prefer nodes by a number or a time in one of their labels or annotations (pkg/nodemetadata of
scheduler-plugins at 903da7df, which 0.35.7 was made of)."""

import math
import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import NodeMetadataArgs
from scheduler.helpers import go_divide
from scheduler.kube.primitives import INT64_MAX, INT64_MIN, TimestampError, time_layout

UNREADABLE = -1 << 63
"""The raw score of a node without a value that can be read."""
LEAST_READABLE = 1
"""The score of the worst node that has a value: 0 is for those without."""
MAX_CHARACTERS = 256
"""Longer values are not read: an annotation may have 256 KiB, no number or time needs them."""
NANOSECONDS = 10**9
_DIGITS, _HEX = r"[0-9]+(?:_[0-9]+)*", r"[0-9a-f]+(?:_[0-9a-f]+)*"
_NUMBER = re.compile(
    rf"[+-]?(?:(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?"
    rf"|(?P<hex>0x(?:_?{_HEX}\.?(?:{_HEX})?|\.{_HEX})p[+-]?{_DIGITS}))",
    re.ASCII | re.IGNORECASE,
)


class NodeMetadata(fw.ScorePlugin, fw.ScoreNormalizer, fw.ScoreRule):
    """Scores the value: the larger or the smaller number, the later or the earlier time. Numbers count without their
    fractions, times in whole seconds."""

    name = "NodeMetadata"

    def __init__(self, args: NodeMetadataArgs) -> None:
        self._key = args.metadata_key
        self._in_labels = args.metadata_source == "Label"
        self._is_number = args.metadata_type == "Number"
        self._sign = 1 if args.scoring_strategy in ("Highest", "Newest") else -1
        # Whole fleets share a value.
        self._read: Callable[[str], int | None] = lru_cache(maxsize=8192)(
            read_number if self._is_number else time_reader(args.timestamp_format)
        )

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return the values, negative where the smaller is better, and UNREADABLE where there is none."""
        values = (self._value(view, row) for row in rows.tolist())
        return np.fromiter((UNREADABLE if value is None else value for value in values), np.int64, len(rows))

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Stretch the values to 1..100, cut towards 1; nodes that are all alike get 1. 0 without a value."""
        result = np.zeros_like(scores)
        readable = scores != UNREADABLE
        if readable.any():
            result[readable] = self._stretched(scores[readable])
        return result

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Values are the node's own, whoever asks."""
        return fw.Reads.NODE

    def _value(self, view: fw.NodeView, row: int) -> int | None:
        node = view.info(row)
        text = (node.labels if self._in_labels else node.annotations).get(self._key)
        if text is None or len(text) > MAX_CHARACTERS:
            return None
        value = self._read(text)
        if value is None:
            return None
        return self._sign * value if self._is_number else self._rank(value, view)

    def _rank(self, moment: int, view: fw.NodeView) -> int:
        """Return the value of a time in nanoseconds since 1970."""
        return self._sign * (moment // NANOSECONDS)

    def _stretched(self, values: fw.IntArray) -> fw.IntArray:
        least, most = int(values.min()), int(values.max())
        if least == most:
            return np.full_like(values, LEAST_READABLE)
        steps = fw.MAX_SCORE - LEAST_READABLE
        if (most - least) * steps <= INT64_MAX:
            return (values - least) * steps // (most - least) + LEAST_READABLE
        # Python's integers have no bounds; such values are rare.
        exact = [(value - least) * steps // (most - least) + LEAST_READABLE for value in values.tolist()]
        return np.array(exact, dtype=np.int64)


def read_number(text: str) -> int | None:
    """Read a number as Go's strconv.ParseFloat does, without its fraction; None where it is none, or beyond int64."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    plain = text.replace("_", "")
    try:
        number = float.fromhex(plain) if match["hex"] else float(plain)
    except (ValueError, OverflowError):
        return None
    return int(number) if math.isfinite(number) and INT64_MIN < number < INT64_MAX else None


def time_reader(layout: str) -> Callable[[str], int | None]:
    """Return a function that reads times of a layout, in nanoseconds since 1970; None where a text is no such time."""
    reader = time_layout(layout)

    def read_time(text: str) -> int | None:
        try:
            return reader.nanoseconds(text)
        except TimestampError:
            return None

    return read_time


# What `compatibility: upstream` changes in NodeMetadata: ages instead of times, and int64 that wraps around.
class UpstreamNodeMetadata(NodeMetadata):
    """A time counts by its age at the moment of the attempt, in seconds cut towards 0, and at most 292 years."""

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Ages change with every attempt."""
        return fw.Reads.NODE if self._is_number else fw.Reads.ANYTHING

    def _rank(self, moment: int, view: fw.NodeView) -> int:
        age = max(INT64_MIN, min(INT64_MAX, int(view.now * NANOSECONDS) - moment))
        seconds = abs(age) // NANOSECONDS
        return self._sign * (seconds if age < 0 else -seconds)

    def _stretched(self, values: fw.IntArray) -> fw.IntArray:
        least = values.min(keepdims=True)
        spread = values.max(keepdims=True) - least
        if not spread[0]:
            return np.full_like(values, LEAST_READABLE)
        return go_divide((values - least) * (fw.MAX_SCORE - LEAST_READABLE), spread) + LEAST_READABLE


def node_metadata(args: NodeMetadataArgs, context: fw.PluginContext) -> NodeMetadata:
    """Return the plugin, as upstream has it if the profile says so."""
    return UpstreamNodeMetadata(args) if context.upstream else NodeMetadata(args)
