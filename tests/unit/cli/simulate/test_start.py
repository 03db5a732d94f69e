"""How little `simulate` needs: a small question has its answer before anybody thinks of waiting, a large one soon."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.simulating import CONFIGURATION, SCHEDULER

_NOT_NEEDED = ("aiohttp", "asyncio", "cryptography", "kubernetes", "prometheus_api_client", "prometheus_client")
_NOT_NEEDED += ("pulumi", "requests", "rich", "scipy", "structlog", "uvloop")
_CPU_SECONDS = 2.0
"""Three times what it takes on an idle machine: enough for a busy one, not for another large library."""
_SHOW_MODULES = """
import json, sys
from secondary_scheduler.cli.app import main
try:
    main()
finally:
    print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def _snapshot(directory: Path) -> tuple[str, ...]:
    objects = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "a"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"schedulerName": SCHEDULER, "containers": [{"name": "c", "image": "i"}]},
        },
    ]
    config, snapshot = directory / "config.yaml", directory / "snapshot.json"
    config.write_text(CONFIGURATION)
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return "simulate", "--config", str(config), "--snapshot", str(snapshot)


def _run(program: str, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1].split()[:2] == ["default/p", "a"]
    return result


def test_libraries_it_has_no_use_for_are_not_imported(tmp_path: Path) -> None:
    imported = json.loads(_run(_SHOW_MODULES, _snapshot(tmp_path)).stderr.splitlines()[-1])
    assert "numpy" in imported
    assert not set(imported) & set(_NOT_NEEDED)


def test_a_small_question_takes_little_work(tmp_path: Path) -> None:
    arguments = _snapshot(tmp_path)
    _run("from secondary_scheduler.cli.app import main; main()", arguments)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run("from secondary_scheduler.cli.app import main; main()", arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < _CPU_SECONDS


def _large(directory: Path) -> tuple[str, ...]:
    """5,000 nodes, 20,000 pods that run, 100 that wait."""
    config, snapshot = directory / "config.yaml", directory / "snapshot.json"
    config.write_text(CONFIGURATION)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    spread = {
        "maxSkew": 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    with snapshot.open("w") as file:
        for number in range(5000):
            labels = {"kubernetes.io/hostname": f"n{number}", "topology.kubernetes.io/zone": f"z{number % 3}"}
            amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
            metadata = {"name": f"n{number}", "labels": labels}
            item = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"allocatable": amounts}}
            file.write(json.dumps(item) + "\n")
        for number in range(20_100):
            spec = {"schedulerName": SCHEDULER, "containers": [container], "topologySpreadConstraints": [spread]}
            if number < 20_000:
                spec["nodeName"] = f"n{number * 7 % 5000}"
            metadata = {"name": f"p{number}", "namespace": f"team-{number % 20}", "labels": {"app": "web"}}
            file.write(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}) + "\n")
    return "simulate", "--config", str(config), "--snapshot", str(snapshot), "--detail", "top:5", "-o", "json"


_TELL_COST = """
import resource, sys
from secondary_scheduler.cli.app import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""


@pytest.mark.slow
def test_a_large_snapshot_takes_seconds_and_no_gigabyte(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _TELL_COST, *_large(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert result.returncode == 0, result.stderr
    decisions = json.loads(result.stdout)["decisions"]
    assert len(decisions) == 100
    assert all(decision["node"] and len(decision["nodes"]) == 5 for decision in decisions)
    seconds, kilobytes = result.stderr.splitlines()[-1].split()
    assert float(seconds) < 60
    assert int(kilobytes) < 1_000_000
