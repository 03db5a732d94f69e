"""What goes wrong around an update, in each install mode that makes explicit objects: objects in the way, refusals in
the middle, drift, an engine that is killed, a stack that is locked, and deletion that is not wanted.

The tests of this module run in order, for each mode on the same cluster and a stack of its own; each begins where the
former one ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from components.drift import FORCED_TYPES
from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler import __version__
from tests.support.live_stack import CHECKOUT, NAME, NAMESPACE, Live
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

OPERATOR = "secondary-scheduler-operator"
BASE = "secondary-scheduler:base"
IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
ABSENT_IMAGE = f"registry.invalid/secondary-scheduler/kube-scheduler:{__version__}"
DEFINITION = "V1CustomResourceDefinition/secondaryschedulers.operator.openshift.io"


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    with LocalCluster(ClusterSpec(name="engine-faults", nodes=2, state_root=cluster_state_root)) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["direct", "manifests"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def live(mode: str, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    stack = Live(cluster, tmp_path_factory.mktemp(mode), f"faults-{mode}")
    stack.settings = {"installMode": mode}
    yield stack
    stack.close()


@pytest.fixture
def owned(mode: str) -> str:
    """The Deployment that the stack itself makes."""
    return NAME if mode == "direct" else OPERATOR


def exported(live: Live) -> list[dict[str, Any]]:
    """The resources of the stack's state."""
    done = subprocess.run(
        live.command("stack", "export")[:5], cwd=CHECKOUT, env=live.environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    resources: list[dict[str, Any]] = json.loads(done.stdout)["deployment"].get("resources", [])
    return resources


def objects(live: Live) -> dict[str, str]:
    """What the stack's state knows of the cluster: type and id by the resource's name."""
    return {
        each["urn"].rpartition("::")[2]: f"{each['type']} {each['id']}"
        for each in exported(live)
        if each["type"].startswith("kubernetes:") and "id" in each
    }


def kubectl(live: Live, reference: tuple[str, str, str], verb: str, *arguments: str) -> str:
    """One verb on an object, given as kind, name and namespace."""
    kind, name, namespace = reference
    command = ["kubectl", "-n", namespace, verb, kind, name, *arguments]
    done = subprocess.run(command, env=live.environment, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def gone(call: Any, *arguments: str) -> bool:
    try:
        call(*arguments)
    except ApiException as error:
        return bool(error.status == 404)
    return False


@contextlib.contextmanager
def running(command: list[str], live: Live, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An engine in a process group of its own, which is ended with the block."""
    with log.open("wb") as output:
        engine = subprocess.Popen(
            command, cwd=CHECKOUT, env=live.environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield engine
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(engine.pid, signal.SIGKILL)
        engine.wait(PATIENCE_SECONDS)


def test_an_object_in_the_way_is_named_with_the_remedy_and_left_alone(live: Live) -> None:
    theirs = {"metadata": {"name": BASE, "labels": {"of": "somebody"}}, "rules": []}
    live.rbac.create_cluster_role(theirs)
    text = live.up(fails=True)
    lines = [line for line in text.splitlines() if f"ClusterRole {BASE} already exists" in line]
    assert lines
    assert "import it" in lines[0]
    assert "upsertExistingObjects" in lines[0]
    assert "Traceback" not in text
    kept = live.rbac.read_cluster_role(BASE)
    assert (kept.metadata.labels, kept.rules) == ({"of": "somebody"}, None)
    assert not [known for known in objects(live).values() if known.endswith(f" {BASE}")]
    live.rbac.delete_cluster_role(BASE)


def test_after_a_refusal_in_the_middle_the_next_run_completes_and_doubles_nothing(live: Live, owned: str) -> None:
    hard = {"hard": {"count/deployments.apps": "0"}}
    live.core.create_namespaced_resource_quota(NAMESPACE, {"metadata": {"name": "none"}, "spec": hard})
    eventually(lambda: live.core.read_namespaced_resource_quota("none", NAMESPACE).status.hard is not None)
    text = live.up(fails=True)
    assert f"Deployment {NAMESPACE}/{owned} failed" in text
    assert "exceeded quota: none" in text
    assert not live.deployments()
    before = objects(live)
    live.core.delete_namespaced_resource_quota("none", NAMESPACE)
    live.up()
    after = objects(live)
    assert before.items() <= after.items(), "what was made is kept and not made again"
    assert len(set(after.values())) == len(after)
    live.places_a_pod(f"after-{owned}")
    live.nothing_to_change()


def test_drift_is_shown_by_refresh_and_force_conflicts_by_up(live: Live, owned: str) -> None:
    (configuration,) = live.config_maps()
    container = live.deployments()[owned].spec.template.spec.containers[0]
    changed = {"containers": [{"name": container.name, "args": ["--by-hand"]}]}
    live.apps.patch_namespaced_deployment(
        owned, NAMESPACE, {"spec": {"template": {"spec": changed}}}, field_manager="kubectl-edit"
    )
    live.core.delete_namespaced_config_map(configuration, NAMESPACE)
    live.rbac.delete_cluster_role(BASE)
    shown = live.run("refresh", "--preview-only", "--diff", "--expect-no-changes", fails=True)
    assert "--by-hand" in shown
    previewed = live.run("preview", "--refresh", "--diff")
    for text in (shown, previewed):
        for name in (f"{NAMESPACE}/{owned}", f"{NAMESPACE}/{configuration}", BASE):
            assert name in text, name
    live.up()  # without a refresh nothing is seen
    assert live.config_maps() == set()
    live.run("up", "--refresh", "--yes", "--skip-preview")
    assert live.config_maps() == {configuration}
    assert live.rbac.read_cluster_role(BASE).rules
    assert live.deployments()[owned].spec.template.spec.containers[0].args == container.args
    live.nothing_to_change()
    live.places_a_pod(f"after-drift-{owned}")


def test_each_kind_that_nobody_tunes_is_force_conflicts_whoever_changed_it(live: Live, mode: str) -> None:
    resources = [each for each in exported(live) if each["type"] in FORCED_TYPES]
    kinds = {each["type"].rpartition(":")[2] for each in resources}
    assert kinds >= {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "PriorityClass"}
    labels = {}
    for each in resources:
        metadata = each["inputs"]["metadata"]
        reference = (each["inputs"]["kind"], metadata["name"], metadata.get("namespace", "default"))
        name, value = next(iter(metadata["labels"].items()))
        labels[reference] = (name, value)
        changed = kubectl(live, reference, "label", f"{name}=theirs", "--overwrite", "--field-manager=Mozilla")
        assert "labeled" in changed
    live.run("up", "--refresh", "--yes")  # with a preview
    for reference, (name, value) in labels.items():
        path = f"{{.metadata.labels.{name.replace('.', chr(92) + '.')}}}"
        assert kubectl(live, reference, "get", "-o", f"jsonpath={path}") == value, reference
    live.nothing_to_change()


def test_an_object_that_others_may_tune_is_force_conflicts_only_if_it_is_named(live: Live, owned: str) -> None:
    body = {"spec": {"replicas": 2}}
    live.apps.patch_namespaced_deployment(owned, NAMESPACE, body, field_manager="Mozilla")
    for _ in range(2):
        assert 'conflict with "Mozilla" using apps/v1: .spec.replicas' in live.run(
            "up", "--refresh", "--yes", "--skip-preview", fails=True
        )
    live.run("up", "--refresh", "--yes", forceConflicts=[f"Deployment/{owned}"])
    assert live.deployments()[owned].spec.replicas == 1
    live.up(forceConflicts=[])
    live.nothing_to_change()


def test_a_change_that_does_not_come_up_fails_in_time_and_leaves_what_runs(live: Live) -> None:
    before, former = live.config_maps(), live.pods()
    for changed in ({"compatibility": "upstream"}, {"compatibility": "safe"}):  # the second changes the image alone
        started = time.monotonic()
        text = live.up(fails=True, schedulerImage=ABSENT_IMAGE, readySeconds=10, **changed)
        assert time.monotonic() - started < 90
        assert f"image {ABSENT_IMAGE} cannot be pulled" in text or "ErrImagePull" in text, text
        assert before <= live.config_maps(), "what runs still mounts it"
        assert former <= live.pods()
    live.places_a_pod(f"meanwhile-{live.settings['installMode']}")
    live.up(schedulerImage=IMAGE, readySeconds=180)
    assert live.config_maps() == before
    live.nothing_to_change()


def test_a_stack_that_another_update_holds_says_so_and_by_whom(live: Live, tmp_path: Path) -> None:
    command = live.command("up", "--yes", "--skip-preview", schedulerImage=ABSENT_IMAGE, readySeconds=120)
    log, former = tmp_path / "up.log", live.pods()
    with running(command, live, log) as engine:
        eventually(lambda: bool(live.pods() - former) or "waiting" in log.read_text().lower())
        text = live.up(fails=True, schedulerImage=IMAGE, readySeconds=180)
        assert "the stack is currently locked by 1 lock(s)" in text
        assert "pulumi cancel" in text
        assert f"pid {engine.pid}" in text
        os.kill(engine.pid, signal.SIGINT)
        assert engine.wait(PATIENCE_SECONDS) != 0
    live.up()
    live.nothing_to_change()


def test_what_is_protected_is_not_deleted(live: Live, mode: str) -> None:
    live.up(protect=True)
    text = live.run("destroy", "--yes", "--skip-preview", fails=True)
    # The engine names at least one of the objects in its way; which of them depends on which deletion it tries first.
    assert "cannot be deleted" in text
    assert "because it is protected" in text
    assert live.core.read_namespace(NAMESPACE).status.phase == "Active"
    if mode == "manifests":
        assert live.custom.get_namespaced_custom_object(
            "operator.openshift.io", "v1", NAMESPACE, "secondaryschedulers", "cluster"
        )["status"]["conditions"]
    live.up(protect=False, retainCrds=True)
    live.nothing_to_change()


def test_destroy_goes_backwards_and_keeps_the_crds_where_the_stack_says_so(live: Live, mode: str) -> None:
    text = live.run("destroy", "--yes", "--skip-preview")
    order = [line.split()[2].removeprefix(f"{NAME}-") for line in text.splitlines() if " deleted (" in line]
    first = "scheduler-deployment" if mode == "direct" else "scheduler-resource"
    (configuration,) = [name for name in order if name.startswith("configuration-configmap-")]
    for later in (configuration, "scheduler-roles-role-secondary-scheduler-base", "namespace-namespace"):
        assert order.index(first) < order.index(later)
    if mode == "manifests":
        assert order.index(first) < order.index("operator-deployment") < order.index("operator-clusterrole")
    left = live.cluster_scoped() - live.before
    assert left == ({DEFINITION} if mode == "manifests" else set())
    if left:
        definitions = kubernetes.ApiextensionsV1Api(live.core.api_client)
        definitions.delete_custom_resource_definition(DEFINITION.partition("/")[2])


def stopped_between_writes(engine: subprocess.Popen[bytes], live: Live) -> bool:
    """Stop the engine where its checkpoint is whole. The engine's file backend does not write it in one piece: a kill
    in between leaves a file that the engine cannot read ("failed to load checkpoint: EOF")."""
    os.killpg(engine.pid, signal.SIGSTOP)
    with contextlib.suppress(subprocess.CalledProcessError, json.JSONDecodeError):
        json.loads(live.state())
        return True
    os.killpg(engine.pid, signal.SIGCONT)
    return False


def test_an_engine_that_was_killed_is_followed_by_one_that_completes_its_work(
    live: Live, owned: str, tmp_path: Path
) -> None:
    eventually(lambda: live.cluster_scoped() == live.before)
    log = tmp_path / "up.log"
    with running(live.command("up", "--yes", "--skip-preview", retainCrds=False), live, log) as engine:
        eventually(lambda: not gone(live.core.read_namespaced_service_account, owned, NAMESPACE))
        eventually(lambda: stopped_between_writes(engine, live))
        os.killpg(engine.pid, signal.SIGKILL)
    assert "the stack is currently locked" in live.up(fails=True)
    cancel = live.command("cancel", "--yes")[:5]
    subprocess.run(cancel, cwd=CHECKOUT, env=live.environment, check=True, capture_output=True)
    text = live.up(adoptExisting=True)
    assert "adoptExisting: existing objects are adopted" in text
    assert "pending operations" in text, "it is told which objects were under way"
    live.run("refresh", "--yes", "--skip-preview", "--clear-pending-creates", adoptExisting=False)
    assert "pending operations" not in live.up()
    live.nothing_to_change()
    live.places_a_pod(f"after-kill-{live.settings['installMode']}")
    live.run("destroy", "--yes", "--skip-preview")
    assert live.cluster_scoped() == live.before


def test_a_stack_whose_state_is_lost_adopts_what_is_there_without_a_restart(live: Live) -> None:
    eventually(lambda: live.cluster_scoped() == live.before)
    live.up(adoptExisting=False)
    live.places_a_pod(f"before-the-loss-{live.settings['installMode']}")
    known, pods = objects(live), live.pods()
    # As a backend that is gone: nothing on the cluster is touched.
    for verb in (("rm", "--force", "--yes", "--preserve-config"), ("init",)):
        command = ["pulumi", "stack", *verb, *live.command()[1:3]]
        subprocess.run(command, cwd=CHECKOUT, env=live.environment, check=True, capture_output=True)
    assert objects(live) == {}
    text = live.up(fails=True)
    assert f"Namespace {NAMESPACE} already exists on the cluster" in text
    assert "Traceback" not in text
    assert live.pods() == pods, "what is refused changes nothing"
    live.up(adoptExisting=True)
    live.up(adoptExisting=False)
    live.nothing_to_change()
    assert objects(live) == known, "each object is the stack's again, and none is another"
    assert live.pods() == pods, "nothing was restarted"
    live.places_a_pod(f"after-the-loss-{live.settings['installMode']}")
    live.run("destroy", "--yes", "--skip-preview")
    assert live.cluster_scoped() == live.before
