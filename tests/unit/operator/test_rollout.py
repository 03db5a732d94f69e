"""A new revision is proven by a canary first, and goes away again if it does not run.

Covered: the way of a good revision, every way to fail, going back, trying again, what is left behind, an operator that
is killed after any write. Left out: real processes (tests/integration/operator).
"""

import copy
import json

import pytest

from scheduler.config import load_configuration
from secondary_scheduler.operator.reconcile.canary import canary_configuration
from tests.unit.operator.builders import (
    CONFIG,
    FOREIGN_IMAGE,
    HASH,
    IMAGE,
    NS,
    OTHER_CONFIG,
    OTHER_HASH,
    Instance,
    config_map,
    container_status,
    scheduler,
)

CANARY = "secondary-scheduler-canary"
OTHER_IMAGE = IMAGE.replace("0.1.0", "0.2.0")
AT_ONCE = {"canary": False}
CRASH = {"state": {"terminated": {"exitCode": 4, "message": "profiles[0]: bad"}}, "restartCount": 1}


def running(**spec):
    return Instance(scheduler(**spec), config_map()).start()


def changed(**spec):
    """A running scheduler, and a configuration that a canary now has to prove."""
    world = running(**spec)
    world.put(config_map(OTHER_CONFIG))
    world.settle()
    return world


def hash_run(world, name="secondary-scheduler"):
    annotations = world.get("Deployment", name)["spec"]["template"]["metadata"]["annotations"]
    return annotations["secondary-scheduler.io/configuration-hash"]


def image_run(world):
    return world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]["containers"][0]["image"]


def pod_of(world, deployment, **status):
    """A pod as the Deployment's controller makes it."""
    template = world.get("Deployment", deployment)["spec"]["template"]
    metadata = {**copy.deepcopy(template["metadata"]), "name": f"{deployment}-x", "namespace": NS, "uid": "pod-uid"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template["spec"])}
    return {**pod, "status": container_status(**status)}


def of_canaries(world):
    return sorted(f"{key.kind} {key.name}" for key in world.objects if "canary" in key.name)


def lease_names(world):
    return world.get("Role", "secondary-scheduler-operand")["rules"][0]["resourceNames"]


def test_the_first_installation_is_not_proven():
    world = Instance(scheduler(), config_map())
    world.settle()
    assert hash_run(world) == HASH
    assert of_canaries(world) == []


def test_a_new_configuration_is_proven_before_the_scheduler_gets_it():
    world = changed()
    assert hash_run(world) == HASH
    assert of_canaries(world) == [f"ConfigMap {CANARY}-{OTHER_HASH}", f"Deployment {CANARY}"]
    assert world.condition("Progressing")[:2] == ("True", "Proving")
    world.prove()
    world.settle()
    assert hash_run(world) == OTHER_HASH
    world.roll_out()
    world.settle()
    assert world.condition("Progressing")[0] == "False"
    assert world.resource["status"]["configurationHash"] == OTHER_HASH


def test_the_canary_is_a_scheduler_of_its_own_with_the_same_rights_and_mounts():
    world = changed()
    canary, scheduler_ = (world.get("Deployment", name) for name in (CANARY, "secondary-scheduler"))
    assert canary["spec"]["selector"] == {"matchLabels": {"app": CANARY}}
    assert canary["spec"]["replicas"] == 1
    own, of_scheduler = (deployment["spec"]["template"]["spec"] for deployment in (canary, scheduler_))
    assert own["serviceAccountName"] == of_scheduler["serviceAccountName"]
    assert own["containers"][0]["volumeMounts"] == of_scheduler["containers"][0]["volumeMounts"]
    args = set(own["containers"][0]["args"]) ^ set(of_scheduler["containers"][0]["args"])
    assert args == {f"--leader-elect-resource-name={name}" for name in (CANARY, "secondary-scheduler")}
    assert lease_names(world) == ["secondary-scheduler", CANARY]
    mounted = next(v for v in own["volumes"] if v["name"] == "etckubernetes")["configMap"]["name"]
    text = world.get("ConfigMap", mounted)["data"]["config.yaml"]
    assert load_configuration(text, source="test").scheduler_names == ("secondary-scheduler-canary",)
    assert hash_run(world, CANARY) == load_configuration(text, source="test").hash


def test_the_pod_to_bind_requests_nothing_and_may_go_anywhere():
    world = changed()
    world.prove(bind=False)
    (probe,) = (obj for key, obj in world.objects.items() if key.kind == "Pod")
    spec = probe["spec"]
    assert spec["schedulerName"] == "secondary-scheduler-canary"
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert "resources" not in spec["containers"][0]
    assert spec["containers"][0]["command"] == ["/bin/kube-scheduler", "--version"]
    assert spec["restartPolicy"] == "Never"
    # Nothing that selects the pods of a scheduler, or of a canary, may take it for one.
    assert probe["metadata"]["labels"]["app"] not in ("secondary-scheduler", CANARY)


def test_every_profile_is_renamed_and_comments_do_not_matter():
    text = "# a\nprofiles: [{schedulerName: a}, {schedulerName: b, plugins: {}}, {}]\n"
    own = canary_configuration(text)
    assert own == canary_configuration(text.replace("# a\n", ""))
    assert [own.text.count(f"{name}-canary") for name in ("a", "b", "default-scheduler")] == [1, 1, 1]
    assert own.scheduler_name == "a-canary"
    assert "default-scheduler-canary" in canary_configuration("kind: KubeSchedulerConfiguration\n").text
    assert canary_configuration("[1]") is canary_configuration("profiles: 3") is canary_configuration("a: [") is None


def test_nothing_is_left_of_a_canary_that_succeeded():
    world = changed()
    world.prove()
    world.settle()
    world.roll_out()
    world.settle()
    assert of_canaries(world) == []
    assert lease_names(world) == ["secondary-scheduler"]
    assert world.names("ConfigMap") == {"config", f"secondary-scheduler-active-{OTHER_HASH}"}


def test_the_lease_and_its_right_stay_until_the_canaries_pods_are_gone():
    world = changed()
    world.prove()
    world.put(pod_of(world, CANARY, ready=True))
    world.settle()
    assert f"Lease {CANARY}" in of_canaries(world)
    assert CANARY in lease_names(world)
    world.drop("Pod", f"{CANARY}-x")
    world.settle()
    assert of_canaries(world) == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param(CRASH, "profiles[0]: bad", id="crash"),
        pytest.param(
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "unknown"}}}, "unknown", id="image"
        ),
    ],
)
def test_a_canary_that_cannot_run_is_given_up_at_once_and_the_scheduler_goes_on(status, words):
    world = changed()
    world.put(pod_of(world, CANARY, **status))
    world.settle()
    assert world.condition("Degraded")[:2] == ("True", "CanaryFailed")
    assert words in world.condition("Degraded")[2]
    assert f"configuration {HASH} with image {IMAGE} keeps running" in world.condition("Degraded")[2]
    assert world.condition("Available")[0] == "True"
    assert hash_run(world) == HASH
    world.drop("Pod", f"{CANARY}-x")
    world.settle()
    assert of_canaries(world) == []
    assert "CanaryFailed" in [reason for reason, _ in world.events]


@pytest.mark.parametrize(
    ("ready", "words"),
    [(False, "it is not ready"), (True, "it has not bound its test pod")],
    ids=["not ready", "not bound"],
)
def test_a_canary_that_takes_too_long_is_given_up(ready, words):
    world = changed()
    if ready:
        world.prove(bind=False)
    assert 0 < world.plan().requeue_after <= 180
    world.wait(181)
    world.settle()
    assert world.condition("Degraded")[1] == "CanaryFailed"
    assert words in world.condition("Degraded")[2]
    assert of_canaries(world) == []


def test_a_canary_of_ours_must_report_its_configuration():
    world = changed()
    world.roll_out(operand=CANARY, report=False)
    world.settle()
    assert "the leading scheduler reports none" in world.condition("Progressing")[2]
    assert not world.names("Pod")


def test_an_image_that_reports_nothing_is_proven_by_readiness_and_the_pod():
    world = changed(schedulerImage=FOREIGN_IMAGE)
    world.roll_out(operand=CANARY, report=False)
    world.settle()
    (probe,) = (name for name in world.names("Pod") if "probe" in name)
    world.put({**world.get("Pod", probe), "spec": {"nodeName": "n1"}})
    world.settle()
    assert hash_run(world) == OTHER_HASH


@pytest.mark.parametrize("operand", [CANARY, "secondary-scheduler"])
def test_an_image_that_reports_nothing_must_hold_its_lease(operand):
    world = changed(schedulerImage=FOREIGN_IMAGE, rollout={"canary": operand == CANARY})
    world.roll_out(operand=operand, report=False, leads=False)
    world.settle()
    assert "none of its pods holds the Lease" in world.condition("Progressing")[2]
    world.wait(181)
    world.settle()
    assert "none of its pods holds the Lease" in world.condition("Degraded")[2]
    assert world.condition("Degraded")[1] == ("CanaryFailed" if operand == CANARY else "RolledBack")


def failed(**spec):
    world = changed(**spec)
    world.wait(181)
    world.settle()
    assert world.condition("Degraded")[1] == "CanaryFailed"
    return world


def test_a_refused_revision_is_tried_again_after_five_minutes_and_reported_meanwhile():
    world = failed()
    assert 0 < world.plan().requeue_after <= 300
    world.wait(299)
    world.settle()
    assert of_canaries(world) == []
    world.wait(2)
    world.settle()
    assert f"Deployment {CANARY}" in of_canaries(world)
    assert world.condition("Degraded")[1] == "CanaryFailed", "until it is known better"
    world.prove()
    world.settle()
    assert hash_run(world) == OTHER_HASH
    assert world.condition("Degraded")[0] == "False"


HOUR = 3600


def test_a_refused_revision_is_tried_again_although_the_clock_was_set_back():
    world = failed()
    world.wait(-HOUR)
    world.wait(301)
    world.settle()
    assert f"Deployment {CANARY}" in of_canaries(world)
    world.prove()
    world.settle()
    assert hash_run(world) == OTHER_HASH


def test_a_canary_that_proves_nothing_fails_in_time_although_the_clock_was_set_back():
    world = changed()
    world.wait(-HOUR)
    world.settle()
    world.wait(181)
    world.settle()
    assert world.condition("Degraded")[1] == "CanaryFailed"
    assert of_canaries(world) == []


def test_a_rollout_that_does_not_come_up_is_rolled_back_in_time_although_the_clock_was_set_back():
    world = changed(rollout=AT_ONCE)
    assert hash_run(world) == OTHER_HASH
    world.wait(-HOUR)
    world.settle()
    world.wait(301)
    world.settle()
    assert world.condition("Degraded")[1] == "RolledBack"
    assert hash_run(world) == HASH


def test_an_edit_of_the_spec_is_worth_another_attempt_at_once():
    world = failed()
    world.edit(operatorLogLevel="Debug")
    world.settle()
    assert f"Deployment {CANARY}" in of_canaries(world)


def test_another_configuration_is_another_revision():
    world = failed()
    world.put(config_map(OTHER_CONFIG.replace("weight: 5", "weight: 6")))
    world.settle()
    assert f"Deployment {CANARY}" in of_canaries(world)


def test_back_to_what_runs_is_no_new_revision_and_clears_the_refusal():
    world = failed()
    world.put(config_map(CONFIG))
    world.settle()
    assert world.condition("Degraded")[0] == "False"
    assert world.names("ConfigMap") == {"config", f"secondary-scheduler-active-{HASH}"}
    assert of_canaries(world) == []


def test_a_canary_of_an_outdated_revision_is_replaced():
    world = changed()
    world.prove(bind=False)
    newest = OTHER_CONFIG.replace("weight: 5", "weight: 6")
    world.put(config_map(newest))
    world.settle()
    assert hash_run(world, CANARY) == canary_configuration(newest).hash
    assert world.names("Pod") == set()
    assert len([name for name in world.names("ConfigMap") if name.startswith(CANARY)]) == 1


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulerImage": OTHER_IMAGE},
        {"extraArgs": ["--profiling=false"]},
        {"command": ["/scheduler"]},
        {"env": [{"name": "A", "value": "b"}]},
        {"leaderElection": {"leaseDuration": "1s"}},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_image_and_command_line_are_proven_too(spec):
    world = running()
    world.edit(**spec)
    world.settle()
    assert f"Deployment {CANARY}" in of_canaries(world)
    assert world.writes.count(("apply", "Deployment")) == 1


@pytest.mark.parametrize(
    "spec",
    [
        {"logLevel": "Debug"},
        {"resources": {"limits": {"memory": "1Gi"}}},
        {"tolerations": [{"operator": "Exists"}]},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_what_a_canary_cannot_prove_is_rolled_out_at_once(spec):
    world = running()
    world.edit(**spec)
    world.settle()
    assert of_canaries(world) == []
    assert world.writes == [("apply", "Deployment")]


def test_where_nothing_runs_there_is_nothing_to_protect():
    world = Instance(scheduler(), config_map())
    world.settle()
    world.put(config_map(OTHER_CONFIG))
    world.settle()
    assert hash_run(world) == OTHER_HASH
    assert of_canaries(world) == []


def rolling(**spec):
    """A proven revision on its way to the scheduler, which has just got it."""
    world = changed(rollout=AT_ONCE, **spec)
    assert hash_run(world) == OTHER_HASH
    return world


class TestGoingBack:
    def test_from_a_crashing_scheduler_is_immediate(self):
        world = rolling()
        world.put(pod_of(world, "secondary-scheduler", **CRASH))
        world.settle()
        assert hash_run(world) == HASH
        status, reason, message = world.condition("Degraded")
        assert (status, reason) == ("True", "RolledBack")
        assert "profiles[0]: bad" in message

    def test_from_one_that_does_not_come_up_takes_its_deadline(self):
        world = rolling()
        assert 0 < world.plan().requeue_after <= 180
        world.wait(179)
        world.settle()
        assert hash_run(world) == OTHER_HASH
        world.wait(2)
        world.settle()
        assert hash_run(world) == HASH
        assert "0 of 1 replicas" in world.condition("Degraded")[2] or "1 of 1" in world.condition("Degraded")[2]

    def test_from_one_that_reports_another_configuration(self):
        world = rolling()
        world.roll_out(report=False)
        world.wait(181)
        world.settle()
        assert f"reports configuration {HASH}, not {OTHER_HASH}" in world.condition("Degraded")[2]

    def test_restores_image_and_command_line(self):
        world = running(rollout=AT_ONCE)
        before = world.get("Deployment", "secondary-scheduler")["spec"]["template"]
        world.edit(schedulerImage=OTHER_IMAGE, extraArgs=["--no-such-flag"], command=["/x"])
        world.settle()
        assert image_run(world) == OTHER_IMAGE
        world.put(pod_of(world, "secondary-scheduler", **CRASH))
        world.settle()
        assert world.get("Deployment", "secondary-scheduler")["spec"]["template"] == before

    def test_is_reported_until_the_cause_is_put_right(self):
        world = rolling()
        world.put(pod_of(world, "secondary-scheduler", **CRASH))
        world.settle()
        world.drop("Pod", "secondary-scheduler-x")
        world.roll_out()
        world.settle()
        assert world.condition("Degraded")[1] == "RolledBack"
        assert world.resource["status"]["configurationHash"] == HASH
        world.put(config_map(CONFIG))
        world.settle()
        assert world.condition("Degraded")[0] == "False"

    def test_goes_nowhere_from_the_first_revision(self):
        world = Instance(scheduler(), config_map())
        world.settle()
        world.wait(1000)
        world.settle()
        assert hash_run(world) == HASH
        assert world.condition("Degraded")[0] == "False"

    def test_does_not_happen_to_what_ran_once(self):
        world = running()
        deployment = copy.deepcopy(world.get("Deployment", "secondary-scheduler"))
        deployment["status"]["availableReplicas"] = 0
        world.put(deployment)
        world.wait(1000)
        world.settle()
        assert hash_run(world) == HASH
        assert world.writes == []

    def test_survives_the_loss_of_the_deployment(self):
        world = failed()
        world.drop("Deployment", "secondary-scheduler")
        world.settle()
        assert hash_run(world) == HASH


@pytest.mark.parametrize("annotation", ["revision", "ran", "trial"])
@pytest.mark.parametrize("junk", ["", "{", "[]", "null", '{"revision": 3}', '{"at": "x", "key": "", "generation": 1}'])
def test_annotations_that_somebody_else_wrote_are_put_right(annotation, junk):
    world = failed()
    for key, obj in list(world.objects.items()):
        if f"secondary-scheduler.io/{annotation}" in (obj["metadata"].get("annotations") or {}):
            spoilt = copy.deepcopy(obj)
            spoilt["metadata"]["annotations"][f"secondary-scheduler.io/{annotation}"] = junk
            world.objects[key] = spoilt
    world.settle()
    live = world.get("Deployment", "secondary-scheduler")["metadata"]["annotations"]["secondary-scheduler.io/revision"]
    assert json.loads(live)["revision"]["configuration"] in (HASH, OTHER_HASH)


@pytest.mark.parametrize("how", ["removed", "deleted"])
def test_nothing_of_a_canary_outlives_the_scheduler(how):
    world = changed()
    world.prove(bind=False)
    world.put(pod_of(world, CANARY, ready=True))
    if how == "removed":
        world.edit(managementState="Removed")
    else:
        world.delete()
    for _ in range(3):
        world.execute(world.plan())
    assert f"Lease {CANARY}" in of_canaries(world), "a canary that is being stopped releases it"
    world.drop("Pod", f"{CANARY}-x")
    for _ in range(3):
        world.execute(world.plan())
    assert {(key.kind, key.name) for key in world.objects} == {("ConfigMap", "config")}


def test_an_unmanaged_instance_keeps_its_canary_as_it_is():
    world = changed()
    before = dict(world.objects)
    world.edit(managementState="Unmanaged")
    world.settle()
    assert world.objects == before


def cluster_acts(world):
    """What the rest of the cluster does meanwhile: pods start and report, the probe is bound."""
    for name in sorted(world.names("Deployment")):
        world.roll_out(operand=name)
    for key in [key for key in world.objects if key.kind == "Pod"]:
        probe = world.objects[key]
        world.put({**probe, "spec": {**probe["spec"], "nodeName": "n1"}})


def history(kills):
    """A change of configuration and then of the image, with an operator that is killed after some of its writes."""
    world = Instance(scheduler(), config_map())
    changes = [lambda: world.put(config_map(OTHER_CONFIG)), lambda: world.edit(schedulerImage=OTHER_IMAGE)]
    writes = 0
    for _ in range(60):
        plan = world.plan()
        cut = next((at - writes for at in kills if writes <= at < writes + len(plan.actions)), None)
        world.execute(plan, killed_after=cut)
        writes += len(plan.actions) if cut is None else cut
        if cut is not None:
            kills = [at for at in kills if at != writes]
            world.applied.clear()
            world.wait(20)
            continue
        cluster_acts(world)
        if not plan.actions and plan.status is None:
            if not changes:
                break
            changes.pop(0)()
    else:
        raise AssertionError("still writing after 60 rounds")
    return world, writes


def shape(world):
    """What there is, without times and identities."""
    specs = {key: obj.get("spec") or obj.get("data") or obj.get("rules") for key, obj in world.objects.items()}
    status = world.resource["status"]
    return specs, status["configurationHash"], [(c["type"], c["status"], c["reason"]) for c in status["conditions"]]


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_an_operator_killed_after_any_write_ends_where_it_would_have_ended(step):
    expected, writes = history([])
    assert image_run(expected) == OTHER_IMAGE
    assert hash_run(expected) == OTHER_HASH
    assert of_canaries(expected) == []
    assert writes > 40
    for at in range(0, writes, step):
        world, _ = history([at, at + 7])
        assert shape(world) == shape(expected), f"killed after write {at}"
