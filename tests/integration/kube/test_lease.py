"""Two candidates and one Lease on a real API server; processes that are killed, frozen or stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.kube.client import ClientConfig, KubeClient, api_path
from scheduler.kube.client.sync import SyncConnection
from scheduler.kube.lease import LeaseElector, LeaseSettings
from tests.support.waiting import PATIENCE_SECONDS, eventually, eventually_on_loop

pytestmark = [pytest.mark.integration, pytest.mark.real_time]

DURATION, DEADLINE, RETRY = 3.0, 2.0, 0.3
PROGRAM = f"""
import sys, time
from pathlib import Path
from scheduler.kube.client import ClientConfig
from scheduler.kube.lease import LeaseElector, LeaseSettings
from tests.support.waiting import PATIENCE_SECONDS, eventually, eventually_on_loop
settings = LeaseSettings(
    namespace=sys.argv[2], name="lock", duration={DURATION}, renew_deadline={DEADLINE}, retry_period={RETRY}
)
elector = LeaseElector(
    ClientConfig.load(Path(sys.argv[1])),
    settings,
    identity=sys.argv[3],
    on_started_leading=lambda: print("leading", flush=True),
)
elector.start()
time.sleep(60)
"""


@pytest.fixture
def settings(namespace: str) -> LeaseSettings:
    return LeaseSettings(
        namespace=namespace, name="lock", duration=DURATION, renew_deadline=DEADLINE, retry_period=RETRY
    )


class Candidate:
    def __init__(self, config: ClientConfig, settings: LeaseSettings, identity: str) -> None:
        self.started = threading.Event()
        self.lost: list[str] = []
        self.elector = LeaseElector(
            config, settings, identity=identity, on_started_leading=self.started.set, on_lost=self.lost.append
        )


Make = Callable[[str], Candidate]


@pytest.fixture
def candidate(config: ClientConfig, settings: LeaseSettings) -> Iterator[Make]:
    created: list[Candidate] = []

    def make(identity: str) -> Candidate:
        created_candidate = Candidate(config, settings, identity)
        created.append(created_candidate)
        created_candidate.elector.start()
        return created_candidate

    yield make
    for started in created:
        started.elector.stop()


@pytest.fixture
def leader_process(control_plane: Any, namespace: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that leads."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(control_plane.kubeconfig), namespace, "elsewhere"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "leading\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def read(config: ClientConfig, settings: LeaseSettings) -> dict[str, Any]:
    connection = SyncConnection(config, timeout=5)
    path = api_path("coordination.k8s.io/v1", "leases", namespace=settings.namespace, name=settings.name)
    try:
        return json.loads(connection.get(path))  # type: ignore[no-any-return]
    finally:
        connection.close()


def test_of_many_candidates_exactly_one_leads_and_release_passes_it_on(
    candidate: Make, config: ClientConfig, settings: LeaseSettings
) -> None:
    candidates = [candidate(f"c{number}") for number in range(4)]
    waiting = list(candidates)
    for turn in range(3):
        eventually(lambda: any(waiter.started.is_set() for waiter in waiting), "a leader")
        time.sleep(0.5)
        leaders = [competitor for competitor in candidates if competitor.elector.is_leader()]
        assert len(leaders) == 1
        spec = read(config, settings)["spec"]
        assert spec["holderIdentity"] == leaders[0].elector.identity
        assert spec["leaseTransitions"] == turn
        leaders[0].elector.stop()
        waiting.remove(leaders[0])
    assert all(not competitor.lost for competitor in candidates)


def test_a_killed_leader_is_replaced_when_its_lease_expires(
    candidate: Make, leader_process: subprocess.Popen[str]
) -> None:
    holder = candidate("here")
    assert not holder.started.wait(DURATION + 1)
    leader_process.kill()
    killed_at = time.monotonic()
    assert holder.started.wait(PATIENCE_SECONDS)
    assert time.monotonic() - killed_at >= DURATION - RETRY - 0.2


def test_a_frozen_leader_exits_on_waking_and_leaves_its_successor_alone(
    candidate: Make, leader_process: subprocess.Popen[str], config: ClientConfig, settings: LeaseSettings
) -> None:
    holder = candidate("here")
    os.kill(leader_process.pid, signal.SIGSTOP)
    assert holder.started.wait(PATIENCE_SECONDS)
    os.kill(leader_process.pid, signal.SIGCONT)
    assert leader_process.wait(PATIENCE_SECONDS) == 1
    time.sleep(2 * RETRY)
    assert read(config, settings)["spec"]["holderIdentity"] == "here"
    assert holder.elector.is_leader()
    assert not holder.lost


async def test_annotations_reach_the_lease_quickly_and_foreign_ones_stay(
    candidate: Make, client: KubeClient, config: ClientConfig, settings: LeaseSettings
) -> None:
    holder = candidate("here")
    assert holder.started.wait(PATIENCE_SECONDS)
    path = api_path("coordination.k8s.io/v1", "leases", namespace=settings.namespace, name=settings.name)
    await client.patch(path, {"metadata": {"annotations": {"theirs": "x"}}})
    holder.elector.set_annotation("secondary-scheduler.io/configuration-hash", "abc")
    expected = {"theirs": "x", "secondary-scheduler.io/configuration-hash": "abc"}
    await eventually_on_loop(lambda: read(config, settings)["metadata"]["annotations"] == expected, str(expected))


async def test_a_leader_whose_lease_was_given_to_another_stops_leading(
    candidate: Make, client: KubeClient, settings: LeaseSettings
) -> None:
    holder = candidate("here")
    assert holder.started.wait(PATIENCE_SECONDS)
    path = api_path("coordination.k8s.io/v1", "leases", namespace=settings.namespace, name=settings.name)
    await client.patch(path, {"spec": {"holderIdentity": "thief", "renewTime": None, "acquireTime": None}})
    await eventually_on_loop(lambda: bool(holder.lost), "leadership lost")
    assert holder.lost == ["the Lease is held by thief"]
    assert not holder.elector.is_leader()
