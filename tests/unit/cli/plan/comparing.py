"""Runs `secondary-scheduler plan` on files in a directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.support.simulating import CONFIGURATION, SCHEDULER, Result, run


def scoring_by(strategy: str) -> str:
    """A configuration that scores by NodeResourcesFit alone."""
    resources = [{"name": "cpu", "weight": 1}]
    args = {"scoringStrategy": {"type": strategy, "resources": resources}}
    data = yaml.safe_load(CONFIGURATION)
    data["profiles"] = [
        {
            "schedulerName": SCHEDULER,
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 1}]}},
            "pluginConfig": [{"name": "NodeResourcesFit", "args": args}],
        }
    ]
    return str(yaml.safe_dump(data))


class Comparer:
    """A directory with two configurations and a snapshot."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.load = ""

    def write(self, name: str, content: str) -> Path:
        path = self.directory / name
        path.write_text(content)
        return path

    def snapshot(self, *objects: dict[str, Any]) -> Path:
        return self.write("snapshot.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def compare(self, old: str, new: str, *objects: dict[str, Any], arguments: tuple[str | Path, ...] = ()) -> Result:
        """Compare configurations on objects."""
        files = ("--old", self.write("old.yaml", old), "--new", self.write("new.yaml", new))
        measured = ("--load", self.write("load.json", self.load)) if self.load else ()
        return run("plan", *files, "--snapshot", self.snapshot(*objects), *measured, *arguments)

    def document(
        self, old: str, new: str, *objects: dict[str, Any], arguments: tuple[str | Path, ...] = ()
    ) -> tuple[int, dict[str, Any]]:
        """The exit code and what JSON says."""
        done = self.compare(old, new, *objects, arguments=(*arguments, "-o", "json"))
        document: dict[str, Any] = json.loads(done.out)
        return done.code, document
