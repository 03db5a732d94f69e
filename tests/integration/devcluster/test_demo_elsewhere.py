"""`make demo CLUSTER=kubeconfig`, on a local cluster that it knows by its kubeconfig only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster.cluster import LocalCluster
from scheduler import __version__
from tests.support.cluster import MakeCluster

pytestmark = [pytest.mark.integration]
CHECKOUT = Path(__file__).resolve().parents[3]
IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"


def demo(kubeconfig: Path, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "devcluster.demo.elsewhere", "--kubeconfig", str(kubeconfig), *arguments],
        cwd=CHECKOUT,
        input=answer,
        capture_output=True,
        text=True,
        check=False,
    )


def leftovers(cluster: LocalCluster) -> set[str]:
    """Objects of the demo, wherever they may be."""
    api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
    rbac = kubernetes.RbacAuthorizationV1Api(api)
    lists = (kubernetes.CoreV1Api(api).list_namespace(), rbac.list_cluster_role(), rbac.list_cluster_role_binding())
    names = {item.metadata.name for objects in lists for item in objects.items}
    return {name for name in names if name.startswith("secondary-scheduler-demo")}


def placed(screen: str, temperature: str) -> tuple[int, int]:
    """Of the nodes of a temperature: our pods and the default scheduler's."""
    row = re.search(rf"all \d+ {temperature}\s+{temperature}\s+(\d+)\s+(\d+)", screen)
    assert row, screen
    return int(row[1]), int(row[2])


def test_a_user_without_rights_is_told_which(control_plane: LocalCluster) -> None:
    done = demo(control_plane.layout.readonly_kubeconfig, "--yes")
    assert done.returncode == 1
    assert re.search(r"^demo: context \S+: its user may not create namespaces, delete namespaces, ", done.stderr)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_our_scheduler_places_by_load_beside_the_cluster_s_own(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(nodes=0, real_nodes=3, prometheus=False, kwok=False)
    refused = demo(cluster.kubeconfig, answer="no\n")
    assert refused.returncode == 2
    assert (
        f"cluster of context {kubernetes_config.list_kube_config_contexts(str(cluster.kubeconfig))[1]['name']}: "
        in refused.stdout
    )
    assert leftovers(cluster) == set()

    done = demo(cluster.kubeconfig, answer="yes\n")
    assert done.returncode == 0, done.stdout + done.stderr
    ours, default = placed(done.stdout, "hot")
    assert ours == 0
    assert default > 0
    assert "Event: secondary-scheduler-demo: Successfully assigned" in done.stdout
    assert "was placed on real-1 before the load moved, and on real-0" in done.stdout
    assert leftovers(cluster) == set()


@pytest.mark.slow
def test_an_image_runs_in_the_cluster_by_measured_load(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(nodes=0, real_nodes=3, pod_loads=True, kwok=False)
    absent = demo(cluster.kubeconfig, "--yes", "--image", "registry.example.com/absent:1")
    assert absent.returncode == 1
    assert (
        "nodes cannot pull registry.example.com/absent:1 (ErrImagePull)" in absent.stderr
        or "ImagePullBackOff" in absent.stderr
    )
    assert leftovers(cluster) == set()

    done = subprocess.run(
        ["make", "--silent", "demo", f"CLUSTER={cluster.kubeconfig}", f"IMAGE={IMAGE}", "YES=1"],
        cwd=CHECKOUT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as its metrics server measures it" in done.stdout
    assert "Event: secondary-scheduler-demo: Successfully assigned" in done.stdout
    assert leftovers(cluster) == set()
