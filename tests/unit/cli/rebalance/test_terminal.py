"""Hostile text in all that tenants write: nothing that a terminal obeys is printed by `rebalance plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.rebalancing import NOW, metrics, one_hot_node
from tests.support.simulating import LOAD_AWARE, load, run

HOSTILE = "\x1b[2J\x1b]8;;http://evil.example\x07here\x9b31m\x85\u202e\u2066\u2028\r\nforged\x07\x7f"
NAMES = {"hot-0", "hot-1", "web", "default", "n0", "n1", "n2", "n3", "uid-hot-0", "uid-hot-1"}


def hostile(value: Any) -> Any:
    """Every name, wherever it stands, with what no object of an API server could be called."""
    if isinstance(value, dict):
        return {hostile(key): hostile(each) for key, each in value.items()}
    if isinstance(value, list):
        return [hostile(each) for each in value]
    return f"{value}{HOSTILE}" if value in NAMES else value


@pytest.mark.parametrize("form", [(), ("-o", "wide")], ids=str)
@pytest.mark.parametrize("stays", [False, True])
def test_what_tenants_write_controls_no_terminal(tmp_path: Path, form: tuple[str, ...], stays: bool) -> None:
    scene = one_hot_node(pods=2).with_objects(metrics("hot-0", cpu="1200m"))
    objects = hostile(scene.objects)
    for item in objects:
        meta = item["metadata"]
        meta["annotations"] = {f"annotation{HOSTILE}": HOSTILE}
        if stays and item["kind"] == "Pod":
            meta["annotations"]["secondary-scheduler.io/rebalance"] = HOSTILE
            meta["ownerReferences"] = [{"kind": f"Kind{HOSTILE}", "name": f"owner{HOSTILE}", "controller": True}]
        item.setdefault("status", {})["message"] = HOSTILE
    files = {
        "config.yaml": LOAD_AWARE,
        "snapshot.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        "load.json": load(hostile(dict(scene.cpu)), end=NOW, timestamp=NOW),
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    config, snapshot, measured = (tmp_path / name for name in files)
    done = run("rebalance", "plan", "--config", config, "--snapshot", snapshot, "--load", measured, *form)
    text = done.out + done.err
    assert "Traceback" not in text
    assert all(line.isprintable() for line in text.split("\n")), repr(text)
    assert not any(line.startswith("forged") for line in text.split("\n"))
    assert "forged" in text, "else the test shows nothing"
