"""`installMode` catalog and olm on the real OLM: its operators, a served catalogue, this project's bundle.

The tests of this module run in order and share one cluster and one stack. Those of the long run end as they began: what
comes after them goes the same way without them.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import ports
from devcluster.cluster import LocalCluster
from devcluster.progress import SilentReporter
from devcluster.spec import ClusterSpec
from devcluster.toolchain.binaries import ensure
from scheduler.catalog import METRICS_READER_CLUSTER_ROLE, shipped_cluster_roles
from tests.support.catalogs import UPSTREAM_PACKAGE, UPSTREAM_VERSION, with_upstreams_package
from tests.support.live_stack import CHECKOUT, NAME, NAMESPACE, Live
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
slow = pytest.mark.slow

OPERATOR = "secondary-scheduler-operator"
GROUP = "operators.coreos.com"
DEFINITION = "secondaryschedulers.operator.openshift.io"


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    opm = ensure(["opm"], SilentReporter())["opm"]
    catalog = with_upstreams_package(tmp_path_factory.mktemp("catalog"), opm)
    spec = ClusterSpec(name="olm-modes", nodes=3, olm=True, olm_catalog=catalog, state_root=cluster_state_root)
    with LocalCluster(spec) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def live(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    stack = Live(cluster, tmp_path_factory.mktemp("stack"), "olm-modes")
    yield stack
    stack.close()


def of(live: Live, plural: str) -> list[Any]:
    resources: list[Any] = live.custom.list_namespaced_custom_object(GROUP, "v1alpha1", NAMESPACE, plural)["items"]
    return resources


def edit(live: Live, kind: str, name: str, **changes: Any) -> None:
    """Change an object by hand."""
    command = ["kubectl", "-n", NAMESPACE, "patch", kind, name, "--type=merge", "-p", json.dumps(changes)]
    subprocess.run(command, env=live.environment, check=True, capture_output=True)


def roles(live: Live) -> dict[str, str]:
    """The scheduler's ClusterRoles, with what changes when one is deleted, even if it comes back."""
    uids = {role.metadata.name: role.metadata.uid for role in live.rbac.list_cluster_role().items}
    return {name: uid for name, uid in uids.items() if name in shipped_cluster_roles()}


def rules(live: Live) -> dict[str, list[Any]]:
    roles = live.custom.list_cluster_custom_object("rbac.authorization.k8s.io", "v1", "clusterroles")["items"]
    by_name = {role["metadata"]["name"]: role["rules"] for role in roles}
    return {name: by_name.get(name, []) for name in shipped_cluster_roles()}


def nothing_is_left_but_the_definition(live: Live) -> bool:
    """OLM keeps the CRD, and roles of its own for users of that kind, which go with the CRD."""
    left = {each.partition("/")[2] for each in live.cluster_scoped() - live.before}
    return {each for each in left if not each.startswith(DEFINITION)} == set() and DEFINITION in left


def test_catalog_installs_the_operator_from_a_served_catalogue(
    live: Live, cluster: LocalCluster, tmp_path: Path
) -> None:
    live.up(installMode="catalog", operator={"catalog": {"address": cluster.olm_catalog_address}})
    (version,) = of(live, "clusterserviceversions")
    # OLM goes back to Installing for a moment when it writes the Deployment once more.
    eventually(lambda: of(live, "clusterserviceversions")[0]["status"]["phase"] == "Succeeded")
    assert live.output()["installation"] == {"mode": "catalog", "operator": version["metadata"]["name"]}
    assert set(live.deployments()) == {NAME, OPERATOR}
    live.places_a_pod("with-catalog")
    assert live.limited_pods() == {NAME, OPERATOR}
    live.scheduler_is_scraped(tmp_path)
    live.nothing_to_change()
    expected = {name: [rule.to_dict() for rule in granted] for name, granted in shipped_cluster_roles().items()}
    assert rules(live) == expected


@slow
def test_what_olm_writes_too_is_no_drift(live: Live) -> None:
    live.run("preview", "--refresh", "--expect-no-changes", "--diff")


@slow
def test_what_was_edited_by_hand_is_seen_and_put_back(live: Live) -> None:
    role = "secondary-scheduler:base"
    edit(live, "subscription", OPERATOR, spec={"channel": "edge"})
    edit(live, "secondaryscheduler", "cluster", spec={"managementState": "Unmanaged"})
    edit(live, "clusterrole", role, rules=[])
    live.run("refresh", "--yes", "--skip-preview")
    preview = live.run("preview", "--diff")
    for expected in ('"edge" => "stable"', '"Unmanaged" => "Managed"'):
        assert expected in preview
    assert "~ 3 to update" in preview
    live.up()
    (subscription,) = of(live, "subscriptions")
    assert subscription["spec"]["channel"] == "stable"
    assert rules(live)[role] == [rule.to_dict() for rule in shipped_cluster_roles()[role]]
    live.run("preview", "--refresh", "--expect-no-changes", "--diff")


def test_destroy_leaves_nothing_but_the_definition(live: Live) -> None:
    live.run("destroy", "--yes", "--skip-preview")
    eventually(lambda: nothing_is_left_but_the_definition(live))


@slow
def test_a_catalogue_that_does_not_answer_fails_the_update_and_is_named(live: Live) -> None:
    nobody = f"127.0.0.1:{ports.allocate(['opm'], {})['opm']}"
    text = live.up(fails=True, installMode="catalog", operator={"catalog": {"address": nobody}, "readySeconds": 15})
    (line,) = [line for line in text.splitlines() if "CatalogSource" in line and "not ready" in line]
    assert "timed out after 15 s" in line
    assert "lastObservedState" in text
    assert not of(live, "subscriptions"), "the update ended there"


@slow
def test_a_channel_that_the_package_does_not_have_fails_the_update_and_is_named(
    live: Live, cluster: LocalCluster
) -> None:
    catalog = {"address": cluster.olm_catalog_address}
    text = live.up(fails=True, operator={"catalog": catalog, "channel": "edge", "readySeconds": 15})
    assert f"Subscription {NAMESPACE}/{OPERATOR} was created but is not ready: timed out after 15 s" in text
    (line,) = [line for line in text.splitlines() if '"ResolutionFailed" is "True"' in line]
    assert "no operators found in channel edge of package secondary-scheduler-operator" in line
    assert not of(live, "installplans")


@slow
def test_the_update_goes_on_where_it_failed_once_the_channel_is_right(live: Live, cluster: LocalCluster) -> None:
    live.up(operator={"catalog": {"address": cluster.olm_catalog_address}})
    (version,) = of(live, "clusterserviceversions")
    assert version["status"]["phase"] == "Succeeded"
    live.places_a_pod("after-failures")
    live.run("preview", "--refresh", "--expect-no-changes", "--diff")


@slow
def test_a_live_stack_leaves_catalog_for_direct_and_comes_back(live: Live, cluster: LocalCluster) -> None:
    before = roles(live)
    live.up(installMode="direct", operator={}, allowRemoval=True)
    kept = roles(live)
    assert kept.items() <= before.items(), "none was made again"
    assert "secondary-scheduler:base" in kept
    live.places_a_pod("without-catalog")
    live.up(installMode="catalog", operator={"catalog": {"address": cluster.olm_catalog_address}})
    assert kept.items() <= roles(live).items()
    live.places_a_pod("back-with-catalog")
    live.run("destroy", "--yes", "--skip-preview")


@slow
def test_manual_approval_says_what_to_approve_and_goes_on_when_it_is(live: Live, tmp_path: Path) -> None:
    source = {"flavour": "ours", "source": "secondary-scheduler", "sourceNamespace": "olm", "approval": "Manual"}
    source["package"] = UPSTREAM_PACKAGE
    command = live.command("up", "--yes", "--skip-preview", installMode="olm", operator=source)
    log = tmp_path / "up.log"
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=CHECKOUT, env=live.environment, stdout=output, stderr=subprocess.STDOUT) as up,
    ):
        try:
            eventually(lambda: "waits for your approval: kubectl" in log.read_text())
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
    assert (version["metadata"]["name"], version["status"]["phase"]) == (UPSTREAM_VERSION, "Succeeded")
    live.places_a_pod("with-olm")


@slow
def test_an_installation_whose_plans_are_approved_is_no_drift(live: Live) -> None:
    # From a stale cache OLM creates a second plan for the same version, which it then asks to approve, too.
    for plan in of(live, "installplans"):
        edit(live, "installplan", plan["metadata"]["name"], spec={"approved": True})
    eventually(lambda: {plan["status"]["phase"] for plan in of(live, "installplans")} == {"Complete"})
    live.run("up", "--yes", "--skip-preview", "--refresh")
    live.run("preview", "--refresh", "--expect-no-changes", "--diff")


@slow
def test_a_live_stack_leaves_olm_for_direct_without_a_gap_in_rights(live: Live) -> None:
    before = roles(live)
    live.up(installMode="direct", operator={}, allowRemoval=True)
    kept = roles(live)
    assert kept.items() <= before.items(), "the scheduler's ClusterRoles were there all the time"
    bound = {binding.role_ref.name for binding in live.rbac.list_cluster_role_binding().items}
    # The scraper's role is for the user to bind.
    assert bound >= set(kept) - {METRICS_READER_CLUSTER_ROLE}
    assert set(live.deployments()) == {NAME}
    assert not of(live, "clusterserviceversions")
    assert not of(live, "subscriptions")
    live.places_a_pod("with-direct")


@slow
def test_destroy_after_the_switch_leaves_nothing_but_the_definition(live: Live) -> None:
    live.run("destroy", "--yes", "--skip-preview")
    assert nothing_is_left_but_the_definition(live)
