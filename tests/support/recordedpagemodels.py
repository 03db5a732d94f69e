"""The made-up cluster of `page_models` over ten minutes: pods arrive, are bound and go, and the load is read again."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from tests.support.pagemodels import CONFIGURATION, OLD_CONFIGURATION, snapshot_items
from tests.support.recordings import START, MadeRecording, bound, time_at

SECONDS = 600
_LOAD_INTERVAL = 60


def write_recorded_page_model(directory: Path, nodes: int, arriving: int, *, hostile: bool = False) -> dict[str, Path]:
    """Write a recording and two configurations; returns the files by name.

    Every pod arrives within the first 400 seconds. A pod whose number is even is bound to the first nodes in turn, ten
    seconds after it came; every fourth goes 200 seconds after that.
    """
    *items, load = snapshot_items(nodes, arriving, hostile=hostile)
    recording = MadeRecording().there(*(item for item in items if _was_there(item)), _load_at(load, 0))
    happenings: list[tuple[float, str, dict[str, Any]]] = []
    for number, pod in enumerate(item for item in items if not _was_there(item)):
        second = 400.0 * number / arriving
        pod["metadata"]["creationTimestamp"] = time_at(int(second))
        happenings.append((second, "added", pod))
        if number % 2 == 0:
            happenings.append((second + 10, "modified", bound(pod, f"node-{number // 2 % nodes:04d}", second + 10)))
        if number % 4 == 0:
            happenings.append((second + 200, "deleted", pod))
    happenings += [
        (second, "modified", _load_at(load, second)) for second in range(_LOAD_INTERVAL, SECONDS, _LOAD_INTERVAL)
    ]
    for second, happening, item in sorted(happenings, key=lambda each: each[0]):
        getattr(recording, happening)(second, item)
    files = {
        "recording": recording.write(directory / "cluster.recording", end=SECONDS),
        "config": directory / "config.yaml",
        "old": directory / "old.yaml",
    }
    files["config"].write_text(CONFIGURATION)
    files["old"].write_text(OLD_CONFIGURATION)
    return files


def _was_there(item: dict[str, Any]) -> bool:
    return item["kind"] != "Pod" or "nodeName" in item["spec"]


def _load_at(load: dict[str, Any], second: float) -> dict[str, Any]:
    """The load as it is read at a second: a node's is one hundredth higher with each reading."""
    end = int(START + second)
    shown = copy.deepcopy(load)
    shown |= {"timestamp": end, "window": {"duration": "15m", "start": end - 900, "end": end}}
    for node in shown["data"]["NodeMetricsMap"].values():
        for metric in node["metrics"]:
            metric["value"] = round(metric["value"] * (1 + second / _LOAD_INTERVAL / 100), 2)
    return shown
