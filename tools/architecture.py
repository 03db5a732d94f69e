"""Draws docs/architecture.svg from the import graph, so that the picture cannot say what the code does not.

A box is a package; a row holds what imports only rows further down. An arrow means "imports"; an arrow that others
imply is left out. `--check` writes nothing and fails where the picture is not the code's any more.
Exit code: 0 when the picture is up to date or was written, 1 when `--check` finds it out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

import grimp

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "architecture.svg"
ROOTS = ("scheduler", "secondary_scheduler", "devcluster", "components", "stacks", "policy", "benchmarks", "tools")
# Opened one level: their subpackages are rooms of their own. The others are drawn as one box each.
OPENED = frozenset({"scheduler", "secondary_scheduler"})
# Modules beside the packages of `scheduler`: together they are the process `kube-scheduler`.
DAEMON = "scheduler: daemon, app"
# Every program's first import, the doors' own helper, how libraries are imported, the flags of every port, the form of
# answers: none imports one of ours.
UNDRAWN = frozenset(
    {"scheduler.answers", "scheduler.connectionlimits", "scheduler.extras", "scheduler.imports", "scheduler.lazy"}
)
COLOURS = {"scheduler": "#dbeafe", "secondary_scheduler": "#dcfce7", "program": "#fef3c7", "laboratory": "#f3f4f6"}
FAMILIES = {
    **dict.fromkeys(("components", "stacks", "policy", "__main__"), "program"),
    **dict.fromkeys(("devcluster", "benchmarks", "tools"), "laboratory"),
}
WIDTH, BOX_HEIGHT, ROW_HEIGHT, MARGIN, FONT = 1180, 34, 84, 24, 13

BEND = "|"

Edges = dict[str, set[str]]


def box_of(module: str, packages: frozenset[str]) -> str | None:
    """The box that a module belongs to; None for what is not drawn: a package's own `__init__`, for one."""
    parts = module.split(".")
    if parts[0] not in OPENED:
        return parts[0]
    if len(parts) == 1 or module in UNDRAWN:
        return None
    name = ".".join(parts[:2])
    return name if name in packages or parts[0] != "scheduler" else DAEMON


def edges_of_the_code() -> Edges:
    """Which box imports which, type-checking imports included."""
    graph = grimp.build_graph(*ROOTS, exclude_type_checking_imports=False)
    packages = frozenset(module for module in graph.modules if graph.find_children(module))
    edges: Edges = {}
    for importer in graph.modules:
        start = box_of(importer, packages)
        if start is None:
            continue
        edges.setdefault(start, set())
        for imported in graph.find_modules_directly_imported_by(importer):
            end = box_of(imported, packages)
            if end is not None and end != start:
                edges[start].add(end)
    # The program is a script, not a module that others could import.
    edges["__main__"] = {"stacks", "components"}
    return edges


def ranks(edges: Edges) -> dict[str, int]:
    """Each box's row, counted from below: one more than the highest row that it imports.

    Raises ValueError where packages import each other in a circle.
    """
    result: dict[str, int] = {}

    def rank(box: str, path: tuple[str, ...]) -> int:
        if box in path:
            raise ValueError(f"packages import each other: {' -> '.join((*path, box))}")
        if box not in result:
            result[box] = 1 + max((rank(end, (*path, box)) for end in edges.get(box, ())), default=-1)
        return result[box]

    for box in sorted(edges):
        rank(box, ())
    return result


def reduced(edges: Edges) -> Edges:
    """The edges without those that a longer way implies."""

    def reach(box: str) -> set[str]:
        return {box}.union(*(reach(end) for end in edges.get(box, ())))

    return {
        box: {end for end in ends if not any(end in reach(other) for other in ends if other != end)}
        for box, ends in edges.items()
    }


def with_bends(edges: Edges, rank: dict[str, int]) -> tuple[Edges, dict[str, int]]:
    """The edges cut at each row that they pass, so that an arrow has a place of its own beside that row's boxes."""
    cut: Edges = {box: set() for box in edges}
    levels = dict(rank)
    for box, ends in sorted(edges.items()):
        for end in sorted(ends):
            start = box
            for level in range(rank[box] - 1, rank[end], -1):
                bend = f"{BEND}{box} {end} {level}"
                levels[bend] = level
                cut[start].add(bend)
                cut[bend] = set()
                start = bend
            cut[start].add(end)
    return cut, levels


def rows(edges: Edges, rank: dict[str, int]) -> list[list[str]]:
    """The boxes of each row from the top, ordered so that arrows cross little: by where those above them stand."""
    result: list[list[str]] = []
    place: dict[str, float] = {}
    for level in range(max(rank.values()), -1, -1):
        importers = {
            box: [place[above] for above, ends in sorted(edges.items()) if box in ends and above in place]
            for box in rank
            if rank[box] == level
        }
        ordered = sorted(
            importers, key=lambda box: (sum(importers[box]) / len(importers[box]) if importers[box] else 0.5, box)
        )
        for number, box in enumerate(ordered):
            place[box] = (number + 0.5) / len(ordered)
        result.append(ordered)
    return result


def family(box: str) -> str:
    """The colour group of a box."""
    root = box.split(".")[0].split(":")[0]
    return FAMILIES.get(root, root)


def width_of(box: str) -> float:
    """How many pixels a box needs; a bend needs room for its line only."""
    return 30 if box.startswith(BEND) else 8 * len(box) + 22


def draw(edges: Edges) -> str:
    """The picture as SVG text."""
    graph, levels = with_bends(reduced(edges), ranks(edges))
    lines = rows(graph, levels)
    middle: dict[str, tuple[float, float]] = {}
    boxes = []
    for level, line in enumerate(lines):
        y = MARGIN + level * ROW_HEIGHT
        gap = (WIDTH - 2 * MARGIN - sum(map(width_of, line))) / len(line)
        left = MARGIN + gap / 2
        for box in line:
            width = width_of(box)
            x = left + width / 2
            middle[box] = (x, y)
            left += width + gap
            if not box.startswith(BEND):
                boxes.append(
                    f'<rect x="{x - width / 2:.0f}" y="{y}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="6"'
                    f' fill="{COLOURS[family(box)]}" stroke="#475569"/>'
                    f'<text x="{x:.0f}" y="{y + BOX_HEIGHT / 2 + 4.5:.1f}" text-anchor="middle">{escape(box)}</text>'
                )
    arrows = [line for box in sorted(graph) for end in sorted(graph[box]) for line in strokes(box, end, middle)]
    height = 2 * MARGIN + (len(lines) - 1) * ROW_HEIGHT + BOX_HEIGHT
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            f' font-family="ui-monospace, Menlo, monospace" font-size="{FONT}" fill="#0f172a">',
            "<title>Packages and their imports; made by tools/architecture.py</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
            '<path d="M0 0 L6 3 L0 6 z" fill="#64748b"/></marker></defs>',
            '<g fill="none" stroke="#64748b" stroke-width="1.2">',
            *arrows,
            "</g>",
            *boxes,
            "</svg>",
            "",
        )
    )


def strokes(box: str, end: str, middle: dict[str, tuple[float, float]]) -> list[str]:
    """The lines from one box or bend to the next; only the last part of an arrow has a tip."""
    (x1, y1), (x2, y2) = middle[box], middle[end]
    top, bottom = y1 + BOX_HEIGHT, y2 if end.startswith(BEND) else y2 - 2
    half = (bottom - top) / 2
    tip = "" if end.startswith(BEND) else ' marker-end="url(#tip)"'
    curve = (
        f'<path d="M{x1:.0f} {top} C{x1:.0f} {top + half:.0f} {x2:.0f} {bottom - half:.0f} {x2:.0f} {bottom}"{tip}/>'
    )
    through = [f'<path d="M{x1:.0f} {y1} V{top}"/>'] if box.startswith(BEND) else []
    return [*through, curve]


def main(arguments: list[str]) -> int:
    """Write the picture, or compare it with the one that is there."""
    picture = draw(edges_of_the_code())
    if "--check" not in arguments:
        PICTURE.write_text(picture, encoding="utf-8")
        return 0
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == picture:
        return 0
    print("docs/architecture.svg is not the code's any more; run: python tools/architecture.py")
    return 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
