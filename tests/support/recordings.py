"""Writes recordings as `snapshot --record` does, from objects and what happens to them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

START = 1_795_600_000
"""Seconds since the epoch."""


class MadeRecording:
    """Lines of a recording. Objects get a uid, as an API server gives them one."""

    def __init__(self) -> None:
        head = {"apiVersion": "secondary-scheduler.io/v1", "kind": "ClusterRecording", "formatVersion": 1}
        self.header: dict[str, Any] = {**head, "gitVersion": "v1.34.4", "start": time_at(0)}
        self.lines: list[dict[str, Any]] = []

    def there(self, *objects: dict[str, Any]) -> MadeRecording:
        """Objects that were there at the beginning."""
        for item in objects:
            self.lines.append({"time": time_at(0), "type": "SNAPSHOT", "object": created(item, 0)})
        return self

    def added(self, second: float, *objects: dict[str, Any]) -> MadeRecording:
        """Objects that come so many seconds after the beginning."""
        return self._happens("ADDED", second, objects)

    def modified(self, second: float, *objects: dict[str, Any]) -> MadeRecording:
        """Objects that are now like this."""
        return self._happens("MODIFIED", second, objects)

    def deleted(self, second: float, *objects: dict[str, Any]) -> MadeRecording:
        """Objects that go."""
        for item in objects:
            meta = created(item, second)["metadata"]
            kept = {key: meta[key] for key in ("name", "namespace", "uid") if key in meta}
            gone = {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": kept}
            self.lines.append({"time": time_at(second), "type": "DELETED", "object": gone})
        return self

    def note(self, second: float, kind: str, about: str = "", message: str = "") -> MadeRecording:
        """A watch that is lost, or the end."""
        self.lines.append({"time": time_at(second), "type": kind, "kind": about, "message": message})
        return self

    def text(self, *, end: float | None = 60) -> str:
        """The content of the file; `end` is when it ended, None where the last line is missing."""
        lines = [self.header, *self.lines]
        if end is not None:
            lines.append({"time": time_at(end), "type": "END", "message": "duration"})
        return "".join(json.dumps(line) + "\n" for line in lines)

    def write(self, file: Path, *, end: float | None = 60) -> Path:
        """Write the file."""
        file.write_text(self.text(end=end))
        return file

    def _happens(self, kind: str, second: float, objects: tuple[dict[str, Any], ...]) -> MadeRecording:
        for item in objects:
            self.lines.append({"time": time_at(second), "type": kind, "object": created(item, second)})
        return self


def time_at(second: float) -> str:
    """A time of a recording in RFC 3339."""
    return datetime.fromtimestamp(START + second, UTC).isoformat().replace("+00:00", "Z")


def created(item: dict[str, Any], second: float) -> dict[str, Any]:
    """An object as an API server shows it."""
    meta = item["metadata"]
    uid = f"uid-{item['kind']}-{meta.get('namespace', '')}-{meta['name']}"
    return {**item, "metadata": {"uid": uid, "creationTimestamp": time_at(int(second)), **meta}}


def bound(item: dict[str, Any], node: str, second: float) -> dict[str, Any]:
    """A pod that runs on a node since a second of the recording."""
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": time_at(int(second))}
    status = {"phase": "Running", "startTime": time_at(int(second)), "conditions": [condition]}
    return {**item, "spec": {**item["spec"], "nodeName": node}, "status": status}


def node_load(second: float, **cpu: float) -> dict[str, Any]:
    """What load-watcher says at a second of the recording: CPU in per cent by node."""
    end = int(START + second)
    loads = {
        name: {"metrics": [{"type": "CPU", "operator": "AVG", "value": share}], "tags": {}, "metadata": {}}
        for name, share in cpu.items()
    }
    return {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "NodeLoad",
        "metadata": {"name": "nodes"},
        "timestamp": end,
        "window": {"duration": "15m", "start": end - 900, "end": end},
        "source": "Prometheus",
        "data": {"NodeMetricsMap": loads},
    }
