"""`installMode` catalog and olm on the real OLM: its operators, a served catalogue, this project's bundle.

The tests of this module run in order and share one cluster and one stack.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secondary_scheduler.devcluster.cluster import Cluster, ClusterSpec
from tests.support.live_stack import CHECKOUT, NAME, NAMESPACE, Live, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

OPERATOR = "secondary-scheduler-operator"
GROUP = "operators.coreos.com"


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[Cluster]:
    spec = ClusterSpec(name="olm-modes", nodes=3, olm=True, state_root=cluster_state_root)
    with Cluster(spec) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def live(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    stack = Live(cluster, tmp_path_factory.mktemp("stack"), "olm-modes")
    yield stack
    stack.close()


def of(live: Live, plural: str) -> list[Any]:
    found: list[Any] = live.custom.list_namespaced_custom_object(GROUP, "v1alpha1", NAMESPACE, plural)["items"]
    return found


def test_catalog_installs_the_operator_from_a_served_catalogue(live: Live, cluster: Cluster) -> None:
    live.up(installMode="catalog", operator={"catalog": {"address": cluster.olm_catalog_address}})
    (version,) = of(live, "clusterserviceversions")
    assert version["status"]["phase"] == "Succeeded"
    assert live.output()["installation"] == {"mode": "catalog", "operator": version["metadata"]["name"]}
    assert set(live.deployments()) == {NAME, OPERATOR}
    live.places_a_pod("with-catalog")
    live.nothing_to_change()


def test_destroy_takes_the_operator_along(live: Live) -> None:
    live.run("destroy", "--yes", "--skip-preview")
    assert NAMESPACE not in {one.metadata.name for one in live.core.list_namespace().items}


def test_manual_approval_says_what_to_approve_and_goes_on_when_it_is(live: Live, tmp_path: Path) -> None:
    source = {"flavour": "ours", "source": "secondary-scheduler", "sourceNamespace": "olm", "approval": "Manual"}
    command = live.command("up", "--yes", "--skip-preview", installMode="olm", operator=source)
    log = tmp_path / "up.log"
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=CHECKOUT, env=live.environment, stdout=output, stderr=subprocess.STDOUT) as up,
    ):
        try:
            eventually(lambda: "waits for your approval: kubectl" in log.read_text(), 90)
            assert not of(live, "clusterserviceversions")
            line = next(line for line in log.read_text().splitlines() if "waits for your approval" in line)
            approve = line[line.index("kubectl") :]
            subprocess.run(["bash", "-c", approve], env=live.environment, check=True, capture_output=True)
            assert up.wait(150) == 0, log.read_text()
        finally:
            if up.poll() is None:
                up.terminate()
                time.sleep(1)
                up.kill()
    (version,) = of(live, "clusterserviceversions")
    assert version["status"]["phase"] == "Succeeded"
    live.places_a_pod("with-olm")


def test_a_live_stack_leaves_olm_for_direct(live: Live) -> None:
    live.up(installMode="direct", operator={})
    assert set(live.deployments()) == {NAME}
    assert not of(live, "clusterserviceversions")
    assert not of(live, "subscriptions")
    live.places_a_pod("with-direct")
