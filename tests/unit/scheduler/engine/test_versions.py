"""What the daemon says of the version it behaves as, and what it does when the cluster's is another one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.config import Configuration, load_configuration
from scheduler.engine import VersionFollower, describe_versions, versions_text
from scheduler.engine.versions import LeaderIsOlderError, VersionUnknownAtStartError
from scheduler.kube.client import ConnectionFailed

AT_ONCE: Any = {"unknown_seconds": 0, "first_seconds": 0, "known_seconds": 0}


class ApiServer:
    """Answers /version with one text after another; the last one ends the test."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = list(answers)

    async def get(self, path: str, params: Any = None, *, timeout: float | None = None) -> bytes:
        assert path == "/version"
        if not self._answers:
            raise EndOfTest
        answer = self._answers.pop(0)
        if not answer:
            raise ConnectionFailed("connection refused")
        return json.dumps({"gitVersion": answer}).encode()


class EndOfTest(Exception):
    """The API server has no more answers."""


def configuration(minor: int | None, *pinned: str) -> Configuration:
    profiles: list[dict[str, Any]] = [{"schedulerName": "following"}]
    for version in pinned:
        options = {"name": "SecondarySchedulerOptions", "args": {"kubernetesVersion": version}}
        profiles.append({"schedulerName": f"pinned-{version}", "pluginConfig": [options]})
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    }
    return load_configuration(json.dumps(document), source="test", cluster_minor=minor)


async def follow(loaded: Configuration, *answers: str) -> list[str]:
    """Run until the answers are used up; returns the notes of Events."""
    notes: list[str] = []
    server: Any = ApiServer(answers)
    follower = VersionFollower(server, loaded, notes.append, **AT_ONCE)
    with pytest.raises(EndOfTest):
        await follower.run()
    return notes


async def test_an_upgraded_cluster_is_one_event_until_the_restart() -> None:
    assert await follow(configuration(35), "v1.35.4", "", "v1.36.3", "v1.36.3") == [
        "The cluster is Kubernetes 1.36 now, and was 1.35: profile following behaves as kube-scheduler 1.35 until the "
        "scheduler is restarted"
    ]


async def test_a_cluster_that_is_taken_back_ends_the_difference() -> None:
    note, end = await follow(configuration(35), "v1.36.3", "v1.35.4", "v1.35.5")
    assert note.startswith("The cluster is Kubernetes 1.36 now")
    assert end == ""


async def test_a_version_that_changes_nothing_is_no_event() -> None:
    assert await follow(configuration(38), "v1.39.0", "v1.40.1") == []
    assert await follow(configuration(None), "v1.34.9") == []


@pytest.mark.parametrize(("minor", "warned"), [(38, False), (39, True)])
def test_a_cluster_newer_than_the_table_gets_the_newest_behavior_with_a_warning(minor: int, warned: bool) -> None:
    server: Any = ApiServer([])
    loaded = configuration(minor)
    with capture_logs() as logs:
        VersionFollower(server, loaded, list[str]().append).announce()
    assert loaded.profiles[0].kubernetes.name == "1.38"
    warnings = [entry for entry in logs if entry["log_level"] == "warning"]
    assert [(entry["cluster"], entry["newest"]) for entry in warnings] == ([("1.39", "1.38")] if warned else [])


async def test_pinned_profiles_do_not_follow() -> None:
    document = configuration(36, "1.36")
    only_pinned = load_configuration(
        json.dumps({**document.data, "profiles": document.data["profiles"][1:]}), source="test", cluster_minor=36
    )
    assert await follow(only_pinned, "v1.37.0") == []


async def test_a_version_unknown_at_the_start_ends_the_process_once_it_is_known() -> None:
    server: Any = ApiServer(["", "v1.36.3"])
    follower = VersionFollower(server, configuration(None), list[str]().append, **AT_ONCE)
    with pytest.raises(VersionUnknownAtStartError, match=r"the cluster is Kubernetes 1\.36, which could not be read"):
        await follower.run()


def follower_of(leader: int | None, loaded: Configuration) -> VersionFollower:
    """A replica that does not lead, once another one leads by that version."""
    leaders = iter((None, leader))

    async def leaders_minor() -> int | None:
        return next(leaders, None)

    server: Any = ApiServer(["v1.36.3", "v1.36.3"])
    return VersionFollower(server, loaded, list[str]().append, leaders_minor, **AT_ONCE)


async def test_a_replica_that_started_with_an_older_leader_starts_again() -> None:
    with pytest.raises(LeaderIsOlderError, match=r"the replica that leads follows Kubernetes 1\.35: profile following"):
        await follower_of(35, configuration(36)).run()


@pytest.mark.parametrize(("leader", "own"), [(None, 36), (36, 36), (37, 36), (33, 34), (39, 37)])
async def test_a_replica_goes_on_unless_the_leader_s_version_decides_differently_and_is_older(
    leader: int | None, own: int
) -> None:
    with pytest.raises(EndOfTest):
        await follower_of(leader, configuration(own)).run()


def test_the_lease_has_one_version_or_that_of_each_profile() -> None:
    assert versions_text(configuration(36)) == "1.36"
    assert versions_text(configuration(36, "1.34")) == "following=1.36,pinned-1.34=1.34"


def test_configz_names_the_versions() -> None:
    assert describe_versions(configuration(36, "1.34")) == {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "SchedulerBehavior",
        "kubernetesVersion": {"following": "1.36", "pinned-1.34": "1.34"},
        "clusterVersion": "1.36",
    }
    assert describe_versions(configuration(None))["clusterVersion"] == "unknown"
