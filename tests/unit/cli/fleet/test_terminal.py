"""What a cluster's objects and an engine say reaches terminal and comment without anything that a terminal obeys."""

from __future__ import annotations

import io
import json
import threading
from typing import Any

from rich.console import Console

from secondary_scheduler.cli.fleet.drift import StackObject, drift_of
from secondary_scheduler.cli.fleet.gate import ExpectedScheduler, GateResult, HealthGate
from secondary_scheduler.cli.fleet.report import comment, line_of, print_table
from secondary_scheduler.cli.fleet.results import Operation, ResourceChange, StackOutcome, StackResult

HOSTILE = "\x1b[2J\x1b]8;;http://evil.example\x07here\x9b31m\x85\u202e\u2066\u2028\r\nforged\x07\x7f"


def gate() -> GateResult:
    """A gate whose every answer is hostile."""
    answers: dict[str, Any] = {
        "deployments": {
            "metadata": {"generation": 1},
            "spec": {"template": {"spec": {"containers": [{"image": f"image{HOSTILE}"}]}}},
        },
        "secondaryschedulers": {
            "status": {
                "configurationHash": f"hash{HOSTILE}",
                "conditions": [
                    {"type": kind, "status": HOSTILE, "reason": HOSTILE, "message": HOSTILE}
                    for kind in ("Available", "Degraded", "LoadDataFresh")
                ],
            }
        },
    }

    class Cluster:
        def get(self, path: str) -> bytes:
            return json.dumps(next((answer for kind, answer in answers.items() if f"/{kind}/" in path), {})).encode()

    expected = ExpectedScheduler(
        namespace="n", deployment="d", scheduler_names=(), hashes=frozenset({"wanted"}), reads_load=True, reports=True
    )
    cluster: Any = Cluster()
    return HealthGate(cluster, expected, threading.Event(), poll=0.0).wait(0.0)


def test_what_an_engine_reports_of_a_cluster_controls_no_terminal() -> None:
    inputs = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"list": []}}
    owner = {"manager": f"manager{HOSTILE}", "operation": "Update", "fieldsV1": {"f:spec": {"f:list": {}}}}
    live = inputs | {"spec": {"list": [{"name": f"entry{HOSTILE}"}]}}
    live["metadata"] = {"name": "t", "managedFields": [owner]}
    drift = drift_of("prod", StackObject(inputs, "ours", "things.example.com"), live)
    result = StackResult(
        "prod", "canary", f"cluster{HOSTILE}", StackOutcome.FAILED, 1.0, gate().reason, {},
        [ResourceChange("update", "type", f"name{HOSTILE}")], [f"message{HOSTILE}"], {}, gate().checks, drift,
    )  # fmt: skip
    shown = io.StringIO()
    print_table(Console(file=shown, width=400), Operation.UP, [result])
    texts = {"table": shown.getvalue(), "comment": comment(Operation.UP, [result]), "line": line_of(result)}
    for name, text in texts.items():
        assert "forged" in text, f"else the {name} shows nothing"
        assert all(line.isprintable() for line in text.split("\n")), f"{name}: {text!r}"
        assert not any(line.startswith("forged") for line in text.split("\n")), name
    assert "hash" in texts["line"]
    assert "entry" in texts["table"]
