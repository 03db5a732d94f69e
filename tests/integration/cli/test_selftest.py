"""`secondary-scheduler selftest` on a cluster of its own: what it finds, and that nothing of it is left."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.conformance.schedulerplugins import binary_of_peer
from tests.integration.cli.selftests import Ground, faulty_scheduler, outcomes, seen
from tests.support.cluster import MakeCluster, audit_flags
from tests.support.live_stack import GO_IMAGE, OUR_IMAGE, go_images
from tests.support.waiting import PATIENCE_SECONDS, eventually

NO_TAINTS = """
for profile in content["profiles"]:
    filters = profile.setdefault("plugins", {}).setdefault("filter", {})
    filters.setdefault("disabled", []).append({"name": "TaintToleration"})
"""
NO_LOAD = """
for profile in content["profiles"]:
    if profile["schedulerName"].endswith("-by-load"):
        profile["plugins"]["score"]["enabled"] = [{"name": "NodeResourcesFit"}]
        profile["pluginConfig"] = []
"""
NO_STAND_IN = """
mark = path.with_name("started")
try:
    mark.touch(exist_ok=False)
except FileExistsError:
    import signal
    signal.pause()
"""
NOSY = """
import base64, ssl, urllib.error, urllib.request
kubeconfig = json.loads(Path(content["clientConnection"]["kubeconfig"]).read_text())
cluster, user = kubeconfig["clusters"][0]["cluster"], kubeconfig["users"][0]["user"]
authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
trust = ssl.create_default_context(cadata=authority)
address, headers = cluster["server"] + "/api/v1/secrets", {"Authorization": "Bearer " + user["token"]}
try:
    urllib.request.urlopen(urllib.request.Request(address, headers=headers), context=trust)
except urllib.error.HTTPError:
    pass
"""
HELD_FOR_DOUBT = "pods (get)"
"""Read only when the response to a Binding is lost."""


@pytest.fixture
def ground(make_cluster: MakeCluster, tmp_path: Path) -> Ground:
    return Ground(make_cluster(nodes=5, real_nodes=0, prometheus=False, api_server_flags=audit_flags(tmp_path)))


def test_our_scheduler_passes_every_step_and_nothing_is_left(ground: Ground) -> None:
    code, report = ground.run("--audit-log", ground.audit_log)
    assert set(outcomes(report).values()) == {"passed"}, report
    assert (code, report["left"], ground.left()) == (0, [], [])
    no_refusal, use, *unused = seen(report, "rights")
    assert "refused no request" in no_refusal
    assert "the audit log has " in use
    (core,) = (line for line in unused if "not used in the core group: " in line)
    assert HELD_FOR_DOUBT in core
    assert "pods/binding" not in core


@pytest.mark.slow
def test_the_scheduler_of_scheduler_plugins_passes_every_step(ground: Ground) -> None:
    code, report = ground.run("--scheduler-binary", binary_of_peer())
    assert set(outcomes(report).values()) == {"passed"}, report
    assert (code, ground.left()) == (0, [])


@pytest.mark.slow
@pytest.mark.parametrize("image", [OUR_IMAGE, GO_IMAGE])
def test_pods_of_a_deployment_pass_every_step_but_those_that_need_a_source_on_this_machine(
    make_cluster: MakeCluster, tmp_path: Path, image: str
) -> None:
    flags = audit_flags(tmp_path)
    options = {"nodes": 5, "real_nodes": 1, "prometheus": False, "images": go_images(), "api_server_flags": flags}
    ground = Ground(make_cluster(**options))
    code, report = ground.run("--image", image, "--audit-log", ground.audit_log)
    skipped = {step for step, outcome in outcomes(report).items() if outcome == "skipped"}
    assert skipped == {"load", "source cut"}, report
    assert (code, ground.left()) == (0, []), seen(report, "rights")


@pytest.mark.slow
def test_injected_faults_are_reported_by_their_steps_only(ground: Ground, tmp_path: Path) -> None:
    faulty = faulty_scheduler(tmp_path, NO_TAINTS, NO_LOAD, NO_STAND_IN, NOSY)
    code, report = ground.run("--scheduler-binary", faulty, "--audit-log", ground.audit_log)
    failed = {step for step, outcome in outcomes(report).items() if outcome == "failed"}
    assert failed == {"taints", "load", "leader killed", "rights"}, report
    assert "was placed on" in seen(report, "taints")[0]
    assert "nobody else holds the Lease" in seen(report, "leader killed")[0]
    assert "list secrets" in seen(report, "rights")[0]
    assert (code, ground.left()) == (1, [])


@pytest.mark.slow
def test_interrupted_it_removes_everything_and_one_that_was_killed_is_cleaned_up_by_the_next(ground: Ground) -> None:
    with subprocess.Popen(ground.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        eventually(lambda: ground.left(), "objects are made")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130
    assert ground.left() == []
    with subprocess.Popen(ground.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        eventually(lambda: len(ground.left()) > 4, "objects are made")
        process.kill()
    (namespace,) = {name for name in ground.left() if name.count("-") == 3}
    done = subprocess.run(ground.command(), capture_output=True, text=True, check=False)
    assert f"removes what an earlier run left: Namespace {namespace}" in done.stderr
    assert ground.left() == []


@pytest.mark.slow
def test_without_rights_nothing_is_made_and_only_shadow_runs(ground: Ground, tmp_path: Path) -> None:
    reader = ground.reader(tmp_path / "kubeconfig")
    code, report = ground.run("--kubeconfig", reader)
    steps = outcomes(report)
    assert steps.pop("shadow") == "passed"
    assert set(steps.values()) == {"skipped"}
    assert "create namespaces" in seen(report, "start")[0]
    assert (code, ground.left()) == (0, [])
