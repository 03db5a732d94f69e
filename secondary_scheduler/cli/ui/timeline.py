"""A recording at a glance: the queue and the nodes at every moment, as recorded and as replayed."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.framework import FloatArray
from secondary_scheduler.cli.ui.course import Course, Frame
from secondary_scheduler.views.nodes import ESTIMATED, REQUESTED, NodeColumns

WIDTH, HEIGHT = 600, 120
"""Of a chart, in its own units."""


@dataclass(frozen=True, slots=True)
class Row:
    """A moment. Values are as recorded and as replayed; NaN is not known.

    Attributes:
        waiting: pods without a node.
        requested, estimated: the 95th percentile over the nodes, in per cent.
    """

    index: int
    time: float
    waiting: tuple[float, float]
    requested: tuple[float, float]
    estimated: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Two lines over time.

    Attributes:
        unit: behind a value.
        most: the value at the upper edge.
        recorded, replayed: points of each line, in pieces without gaps, as SVG reads them.
        ends: the last values, as recorded and as replayed.
    """

    title: str
    unit: str
    most: float
    recorded: tuple[str, ...]
    replayed: tuple[str, ...]
    ends: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Timeline:
    """What the page shows."""

    charts: tuple[Chart, ...]
    rows: tuple[Row, ...]


def timeline(course: Course, taken_over: Collection[str], resource: str) -> Timeline:
    """Return all moments; of the nodes, the shares of one resource."""
    names = {*course.configuration.scheduler_names, *taken_over}
    rows = tuple(_row(index, frame, names, resource) for index, frame in enumerate(course.frames))
    percent = "CPU" if resource == "cpu" else "memory"
    return Timeline(
        (
            _chart("Pods that wait", "", [row.waiting for row in rows], 1.0),
            _chart(
                f"Requests of {percent}, 95th percentile of the nodes", " %", [row.requested for row in rows], 100.0
            ),
            _chart(
                f"Estimated load of {percent}, 95th percentile of the nodes",
                " %",
                [row.estimated for row in rows],
                100.0,
            ),
        ),
        rows,
    )


def _row(index: int, frame: Frame, names: Collection[str], resource: str) -> Row:
    waiting = sum(frame.recorded.waiting[name] for name in names)
    sides = (frame.recorded.columns, frame.columns)
    requested, estimated = (
        (_high(sides[0], by, resource), _high(sides[1], by, resource)) for by in (REQUESTED, ESTIMATED)
    )
    return Row(index, frame.time, (float(waiting), float(len(frame.waiting))), requested, estimated)


def _high(columns: NodeColumns, measure: str, resource: str) -> float:
    values: FloatArray = columns.shares[measure, resource]
    known = values[~np.isnan(values)]
    return float(np.percentile(known, 95)) if len(known) else math.nan


def _chart(title: str, unit: str, values: Sequence[tuple[float, float]], least: float) -> Chart:
    known = [value for pair in values for value in pair if not math.isnan(value)]
    most = max([least, *known])
    recorded, replayed = (_pieces([pair[side] for pair in values], most) for side in (0, 1))
    return Chart(title, unit, most, recorded, replayed, values[-1])


def _pieces(values: Sequence[float], most: float) -> tuple[str, ...]:
    """Return the points of a line; where a value is not known, another piece begins."""
    pieces: list[list[str]] = [[]]
    width = WIDTH / max(1, len(values) - 1)
    for index, value in enumerate(values):
        if math.isnan(value):
            pieces.append([])
        else:
            pieces[-1].append(f"{index * width:.1f},{HEIGHT * (1 - value / most):.1f}")
    return tuple(" ".join(piece) for piece in pieces if piece)
