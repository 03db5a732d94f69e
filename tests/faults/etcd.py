"""What a test does to etcd behind the API server's back: objects that no validation saw, its alarms, snapshots."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def call(etcd: str, path: str, body: Json) -> Json:
    """POST to etcd's JSON gateway."""
    request = urllib.request.Request(etcd + path, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(json.load(answer))


def edit(etcd: str, key: str, change: Callable[[Json], None]) -> None:
    """Change an object where it is stored; the API server's watches tell of it. The API server checks no value that it
    reads, as little as that of an older or a newer version."""
    name = base64.b64encode(key.encode()).decode()
    (pair,) = call(etcd, "/v3/kv/range", {"key": name})["kvs"]
    item = json.loads(base64.b64decode(pair["value"]))
    change(item)
    call(etcd, "/v3/kv/put", {"key": name, "value": base64.b64encode(json.dumps(item).encode()).decode()})


def save_snapshot(etcd: str, file: Path) -> None:
    """Write what `etcdctl snapshot save` writes."""
    request = urllib.request.Request(f"{etcd}/v3/maintenance/snapshot", b"{}")
    with urllib.request.urlopen(request, timeout=30) as answer, file.open("wb") as output:
        for line in answer:
            output.write(base64.b64decode(json.loads(line)["result"].get("blob", "")))


def run_out_of_space(etcd: str) -> None:
    """Raise the alarm that a full quota raises: every write fails, every read works."""
    call(etcd, "/v3/maintenance/alarm", {"action": "ACTIVATE", "memberID": _member(etcd), "alarm": "NOSPACE"})


def disarm(etcd: str) -> None:
    """Take that alarm back, as an administrator does after making room."""
    call(etcd, "/v3/maintenance/alarm", {"action": "DEACTIVATE", "memberID": _member(etcd), "alarm": "NOSPACE"})


def size(etcd: str) -> int:
    """How many bytes its file of data has, which is what the quota limits."""
    return int(call(etcd, "/v3/maintenance/status", {})["dbSize"])


def _member(etcd: str) -> str:
    return str(call(etcd, "/v3/maintenance/status", {})["header"]["member_id"])
