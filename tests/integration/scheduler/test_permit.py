"""What becomes of pods that wait for permission: our daemon and a kube-scheduler with the same Permit plugin."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import releases
from devcluster.toolchain import binaries
from tests.conformance.controlplane import control_plane_running
from tests.conformance.schedulerlog import VMODULE
from tests.integration.scheduler.preemption import OURS, our_daemon
from tests.integration.scheduler.queueing import QueueStage, State, Step, create, node, patch, pause, pod, queue_stage
from tests.support.goprograms import built
from tests.support.kubescheduler import kube_scheduler_running

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(
        int(releases.chosen().partition(".")[2]) < 36, reason="a victim without a node is deleted, up to 1.35"
    ),
]

REAL = "holding"
_PROGRAM = Path(__file__).parent / "permit_oracle"
_HOLDING = {"permit": {"enabled": [{"name": "Holding"}]}}

SCENARIOS: dict[str, list[Step]] = {
    "a victim is tried again, and gets another node": [
        create(node("big")),
        create(pod("victim", "1", priority="low", labels={"hold": "big"})),
        create(node("small", "1")),
        create(pod("p", "1500m", priority="eager")),
        pause(2.5),
    ],
    "a victim is tried again without any event, and finds no room": [
        create(node("big")),
        create(pod("victim", "1", priority="low", labels={"hold": "big"})),
        create(pod("p", "1500m", priority="eager")),
        pause(2.5),
    ],
    "two victims": [
        create(node("big")),
        create(*(pod(f"victim{number}", "1", priority="low", labels={"hold": "big"}) for number in (1, 2))),
        create(pod("p", "2", priority="eager")),
        pause(2.5),
        create(node("other")),
    ],
    "a pod that waits and is in nobody's way": [
        create(node("big")),
        create(pod("victim", "1", priority="low", labels={"hold": "big"})),
        create(pod("p", "1", priority="eager")),
        patch("Node", "big", {"metadata": {"labels": {"disk": "ssd"}}}),
    ],
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[QueueStage, asyncio.Runner]]:
    directory: Path = tmp_path_factory.mktemp("permit")
    metadata = directory / "holding-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: holding\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[secondary_scheduler.plugins]\nHolding = holding:DESCRIPTOR\n")
    release = binaries.row("kube-scheduler")
    oracle = built(_PROGRAM, binaries.MODULES / release.group, release.ldflags)
    with pytest.MonkeyPatch.context() as patched, control_plane_running() as plane:
        patched.setenv("PYTHONPATH", f"{_PROGRAM}:{directory}")
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(plane.layout.kubeconfig)},
            "profiles": [{"schedulerName": REAL, "plugins": _HOLDING}],
        }
        flags = ("-v=2", f"--vmodule={VMODULE}")
        real = kube_scheduler_running(oracle, plane.layout.kubeconfig, directory, json.dumps(configuration), flags)
        with (
            real,
            our_daemon(plane, directory, {"plugins": _HOLDING}) as log,
            queue_stage(plane, {REAL: directory / "real.log", OURS: log}) as running,
        ):
            yield running


@pytest.mark.parametrize("name", SCENARIOS)
def test_pods_that_wait_for_permission_fare_as_with_kube_scheduler(
    stage: tuple[QueueStage, asyncio.Runner], name: str
) -> None:
    play, runner = stage
    real: list[State] = []
    # kube-scheduler tries the preemptor again while the victim still counts: now and then it comes upon it once more,
    # finds it waiting no longer, and deletes it.
    for _ in range(4):
        real = runner.run(play.play(SCENARIOS[name], REAL, patience=3.0))
        if {"victim", "victim1"} & real[-1].conditions.keys():
            break
    assert {"victim", "victim1"} & real[-1].conditions.keys(), "it was deleted"
    assert runner.run(play.play(SCENARIOS[name], OURS, real, patience=3.0)) == real
