"""The image and the permissions in the spec decide which configuration the operator rolls out."""

import pytest

from tests.unit.controller.builders import CONFIG, FOREIGN_IMAGE, IMAGE, World, config_map, scheduler

OLD = CONFIG.replace("/v1\n", "/v1beta3\n")
DEFAULT_NAME = CONFIG.replace("schedulerName: secondary-scheduler", "schedulerName: default-scheduler")
PEAKS = CONFIG.replace("TargetLoadPacking\n        weight", "Peaks\n        weight")
TOKEN = CONFIG.replace("type: Prometheus,", "type: Prometheus, token: abc,")


PLUGINS = "scheduler-plugins/kube-scheduler"
RELEASES = ("35.7", "34.7", "33.5", "32.7", "31.8", "30.12", "29.8", "28.9", "27.8", "26.7", "25.12", "24.9", "23.10")


def degraded(text: str, **spec: object) -> str:
    world = World(scheduler(**spec), config_map(text))
    world.settle()
    status, reason, message = world.condition("Degraded")
    assert (reason == "ConfigInvalid") is (status == "True")
    return message if status == "True" else ""


@pytest.mark.parametrize(
    ("text", "spec", "told"),
    [
        (OLD, {"schedulerImage": IMAGE}, ""),
        (OLD, {"schedulerImage": FOREIGN_IMAGE}, "scheduler-plugins@0.34 does not read v1beta3"),
        (OLD, {"schedulerImage": FOREIGN_IMAGE.replace("34.7", "28.9")}, ""),
        (PEAKS, {"schedulerImage": FOREIGN_IMAGE}, ""),
        (PEAKS, {"schedulerImage": FOREIGN_IMAGE.replace("34.7", "29.8")}, 'ScorePlugin "Peaks" does not exist in'),
        (DEFAULT_NAME, {}, "competes with the cluster's own"),
        (DEFAULT_NAME, {"allowDefaultSchedulerName": True}, ""),
        (TOKEN, {}, "a token in a ConfigMap can be read by everyone"),
        (TOKEN, {"allowTokenInConfigMap": True}, ""),
    ],
    ids=["old", "old too old", "old read", "Peaks", "no Peaks", "default", "default aloud", "token", "token aloud"],
)
def test_a_configuration_is_judged_for_the_image_it_is_for(text: str, spec: dict[str, object], told: str) -> None:
    message = degraded(text, **spec)
    assert told in message
    assert bool(message) == bool(told)


@pytest.mark.parametrize(("image", "passed"), [(IMAGE, True), (FOREIGN_IMAGE, False)])
def test_only_our_scheduler_is_told_that_the_name_is_allowed(image: str, passed: bool) -> None:
    world = World(scheduler(schedulerImage=image, allowDefaultSchedulerName=True), config_map(DEFAULT_NAME))
    world.settle()
    pod_spec = world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]
    assert ("--allow-default-scheduler-name" in pod_spec["containers"][0]["args"]) is passed


@pytest.mark.parametrize(
    ("image", "command"),
    [
        (IMAGE, "/bin/kube-scheduler"),
        *((f"registry.k8s.io/{PLUGINS}:v0.{release}", "/bin/kube-scheduler") for release in RELEASES),
        (f"k8s.gcr.io/{PLUGINS}:v0.22.6", "/bin/kube-scheduler"),
        (f"registry.k8s.io/{PLUGINS}:v0.29.7", "/kube-scheduler"),
        (f"mirror.example.com/k8s/{PLUGINS}:v0.34.7@sha256:{'0' * 64}", "/bin/kube-scheduler"),
    ],
)
def test_each_release_is_started_by_the_command_that_its_image_has(image: str, command: str) -> None:
    # Not every release reads v1; what is asked here is how it is started.
    world = World(scheduler(schedulerImage=image, configPolicy="PassThrough"), config_map())
    world.settle()
    pod_spec = world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]
    assert pod_spec["containers"][0]["command"] == [command]
    assert pod_spec["securityContext"]["runAsUser"] > 0, "those up to 0.28 would run as root"


def test_an_image_of_the_go_scheduler_gets_the_roles_it_is_written_for_and_ours_does_not() -> None:
    world = World(scheduler(schedulerImage=FOREIGN_IMAGE, rollout={"canary": False}), config_map()).start()
    system = {name for name in world.names("ClusterRoleBinding") if "system" in name}
    assert system == {
        "secondary-scheduler:system-kube-scheduler", "secondary-scheduler:system-volume-scheduler",
    }  # fmt: skip
    world.edit(schedulerImage=IMAGE)
    world.settle()
    world.roll_out()
    world.settle()
    assert not system & world.names("ClusterRoleBinding")


def test_a_permission_withdrawn_later_keeps_what_runs() -> None:
    world = World(scheduler(allowDefaultSchedulerName=True), config_map(DEFAULT_NAME)).start()
    before = world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]
    world.edit(allowDefaultSchedulerName=False)
    world.settle()
    assert world.condition("Degraded")[1] == "ConfigInvalid"
    assert world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"] == before
