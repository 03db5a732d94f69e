"""A shadow profile on a real API server: compared, and never served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.cluster import LocalCluster
from tests.support.daemon import Cluster, configuration, daemon
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NAME, TRIAL = "shadowed", "shadow-trial"


@pytest.fixture
def cluster(control_plane: LocalCluster) -> Iterator[Cluster]:
    cluster = Cluster(control_plane.kubeconfig, NAME)
    yield cluster
    cluster.remove()


def test_live_pods_are_bound_compared_and_counted_and_those_of_the_shadow_stay_pending(
    control_plane: LocalCluster, cluster: Cluster, tmp_path: Path
) -> None:
    options = {"name": "SecondarySchedulerOptions", "args": {"shadow": {"profile": TRIAL}}}
    content = configuration(control_plane.kubeconfig, NAME, options)
    term = {"matchExpressions": [{"key": "no", "operator": "In", "values": ["such-node"]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    args = {"name": "NodeAffinity", "args": {"addedAffinity": affinity}}
    content["profiles"].append({"schedulerName": TRIAL, "pluginConfig": [args]})
    with daemon(tmp_path, content, "--authorization-always-allow-paths=/metrics,/debug/*") as running:
        of_shadow = cluster.create(TRIAL)
        cluster.place(NAME)

        def report() -> Any:
            answer = running.get(f"/debug/shadow/namespaces/{NAME}")
            return answer.json() if answer.status_code == 200 and answer.json()["items"] else None

        shown = eventually(report, "a difference")
        (item,) = shown["items"]
        assert (item["outcome"], item["shadowNode"]) == ("onlyLivePlaced", None)
        assert item["liveNode"] == cluster.node_of(item["pod"].partition("/")[2])
        assert {judged["rejected_by"] for judged in item["shadowJudges"]} == {"NodeAffinity"}
        labels = f'outcome="onlyLivePlaced",profile="{NAME}",shadow="{TRIAL}"'
        assert f"secondary_scheduler_shadow_decisions_total{{{labels}}} 1.0" in running.get("/metrics").text
        assert running.get("/debug/shadow/namespaces/other").json()["items"] == []
        assert cluster.node_of(of_shadow) is None
