"""Draws docs/images/score-curves.svg from the plugins' own formulas, so that the picture cannot say what they do not.

`--check` writes nothing and fails where the picture is not the code's any more.
Exit code: 0 when the picture is up to date or was written, 1 when `--check` finds it out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scheduler.catalog import LoadVariationRiskBalancingArgs, LowRiskOverCommitmentArgs  # noqa: E402
from scheduler.framework import FloatArray  # noqa: E402
from scheduler.helpers import round_half_away  # noqa: E402
from scheduler.helpers.loadstats import resource_stats  # noqa: E402
from scheduler.plugins.loadvariationriskbalancing import balance_score  # noqa: E402
from scheduler.plugins.lowriskovercommitment import limit_risk, load_risk, total_risk  # noqa: E402
from scheduler.plugins.peaks import go_int64, normalize_scores, power_jump  # noqa: E402
from scheduler.plugins.targetloadpacking import packing_score  # noqa: E402

PICTURE = ROOT / "docs/images/score-curves.svg"
UTILIZATION = np.arange(0.0, 101.0)
"""Per cent."""
WIDTH, HEIGHT, LEFT, TOP, GAP = 380, 230, 52, 58, 104
COLOURS = ("#1d4ed8", "#b45309", "#047857", "#7e22ce")
# What a printer without colours, and eyes that see few, tell apart.
DASHES = ("", "7 4", "2 3", "9 3 2 3")
FONT = 13


@dataclass(frozen=True)
class Curve:
    """A label and a score for each utilisation."""

    label: str
    scores: Sequence[float]


@dataclass(frozen=True)
class CurvePanel:
    """A plugin's curves."""

    title: str
    x: str
    curves: tuple[Curve, ...]


def _curve(label: str, scores: Iterable[float]) -> Curve:
    return Curve(label, [float(score) for score in scores])


def target_load_packing() -> CurvePanel:
    """Up to the target it packs, beyond it spreads."""
    curves = [_curve(f"target {target} %", packing_score(UTILIZATION, float(target))) for target in (40, 60, 80)]
    return CurvePanel("TargetLoadPacking", "predicted CPU, % of the node", tuple(curves))


def load_variation_risk_balancing() -> CurvePanel:
    """The lower and the steadier, the better."""
    args, capacity = LoadVariationRiskBalancingArgs(), np.full(len(UTILIZATION), 1000.0)
    curves = []
    for deviation in (0, 10, 30):
        stats = resource_stats(UTILIZATION, np.full(len(UTILIZATION), float(deviation)), capacity, 0.0)
        score = balance_score(stats, args.safe_variance_margin, args.safe_variance_sensitivity)
        curves.append(_curve(f"deviation {deviation} %", round_half_away(score)))
    return CurvePanel("LoadVariationRiskBalancing", "mean load + request, % of the node", tuple(curves))


def low_risk_over_commitment() -> CurvePanel:
    """A load above what is requested costs points, and so do limits that do not fit."""
    args, unit = LowRiskOverCommitmentArgs(), np.ones(len(UTILIZATION))
    curves = []
    for limits in (100, 150):
        for deviation in (2, 10):
            request, limit = 0.5 * unit, limits / 100.0 * unit
            mean = UTILIZATION / 100.0
            load = load_risk(mean, deviation / 100.0 * unit, request, limit, unit, window=args.smoothing_window_size)
            risk = total_risk(args.risk_limit_weights["cpu"], limit_risk(request, limit, unit), load)
            label = f"limits {limits} %, ± {deviation} %"
            curves.append(_curve(label, round_half_away((1.0 - risk) * 100.0)))
    return CurvePanel("LowRiskOverCommitment, requests 50 %", "mean load, % of the node", tuple(curves))


def peaks() -> CurvePanel:
    """The less the node's power grows, the better; the shape of its power model decides."""
    before = UTILIZATION[UTILIZATION <= 90.0]
    curves = []
    for label, k1, k2 in (("k1 = 10, k2 = 0.03", 10.0, 0.03), ("k1 = -90, k2 = -0.07", -90.0, -0.07)):
        columns: tuple[FloatArray, FloatArray] = np.full(len(before), k1), np.full(len(before), k2)
        curves.append(_curve(label, normalize_scores(go_int64(power_jump(*columns, before, before + 10.0, np.exp)))))
    return CurvePanel("Peaks, a pod of 10 %, among such nodes", "CPU before the pod, % of the node", tuple(curves))


def draw(panels: Sequence[CurvePanel]) -> str:
    """Return the picture: two panels a row."""
    rows = (len(panels) + 1) // 2
    width = 2 * (LEFT + WIDTH) + 28
    height = rows * (TOP + HEIGHT) + (rows - 1) * (GAP - TOP) + 70
    parts = []
    for number, panel in enumerate(panels):
        x = LEFT + number % 2 * (LEFT + WIDTH + 8)
        y = TOP + number // 2 * (HEIGHT + GAP)
        parts += _panel(panel, x, y)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' font-family="system-ui, sans-serif" font-size="{FONT}" fill="#0f172a">',
            "<title>Scores of the load-aware plugins; made by tools/score_curves.py</title>",
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *parts,
            "</svg>",
            "",
        )
    )


def _panel(panel: CurvePanel, x: int, y: int) -> list[str]:
    parts = [f'<text x="{x}" y="{y - 34}" font-weight="600">{escape(panel.title)}</text>']
    for tick in range(0, 101, 20):
        across, up = x + tick * WIDTH / 100, y + HEIGHT - tick * HEIGHT / 100
        parts += [
            f'<path d="M{x} {up:.1f} h{WIDTH}" stroke="#e2e8f0"/>',
            f'<text x="{x - 8}" y="{up + 4.5:.1f}" text-anchor="end">{tick}</text>',
            f'<text x="{across:.1f}" y="{y + HEIGHT + 18}" text-anchor="middle">{tick}</text>',
        ]
    parts += [
        f'<path d="M{x} {y} v{HEIGHT} h{WIDTH}" fill="none" stroke="#475569"/>',
        f'<text x="{x + WIDTH / 2:.1f}" y="{y + HEIGHT + 38}" text-anchor="middle">{escape(panel.x)}</text>',
        f'<text x="{x - 38}" y="{y - 10}">score</text>',
    ]
    places = [(x + 16 + column * WIDTH / 2, y - 18 + line * 16) for line in range(2) for column in range(2)]
    legend = len(panel.curves) > 2
    for curve, colour, dash, number in zip(panel.curves, COLOURS, DASHES, range(4), strict=False):
        points = " ".join(
            f"{x + step * WIDTH / 100:.1f},{y + HEIGHT - score * HEIGHT / 100:.1f}"
            for step, score in enumerate(curve.scores)
        )
        style = f'stroke="{colour}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")
        parts.append(f'<polyline points="{points}" fill="none" {style}/>')
        left, base = places[number]
        top = base + (0 if legend else 8)
        parts += [
            f'<path d="M{left + 10:.1f} {top - 4} h26" {style}/>',
            f'<text x="{left + 42:.1f}" y="{top}" font-size="12">{escape(curve.label)}</text>',
        ]
    return parts


def picture() -> str:
    """Return the picture of all plugins."""
    return draw((target_load_packing(), load_variation_risk_balancing(), low_risk_over_commitment(), peaks()))


def main(arguments: Sequence[str]) -> int:
    """Write the picture, or compare it with the one that is there."""
    drawn = picture()
    if "--check" not in arguments:
        PICTURE.write_text(drawn, encoding="utf-8")
        return 0
    if PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == drawn:
        return 0
    print(f"{PICTURE.relative_to(ROOT)} is not the code's any more; run: make curves")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
