"""The image and the permissions in the spec decide which configuration the operator rolls out."""

import pytest

from tests.unit.operator.builders import CONFIG, FOREIGN_IMAGE, IMAGE, Instance, config_map, scheduler

OLD = CONFIG.replace("/v1\n", "/v1beta3\n")
DEFAULT_NAME = CONFIG.replace("schedulerName: secondary-scheduler", "schedulerName: default-scheduler")
ODD_NAME = CONFIG.replace("schedulerName: secondary-scheduler", "schedulerName: $(touch X)`id`;|")
PEAKS = CONFIG.replace("TargetLoadPacking\n        weight", "Peaks\n        weight")
TOKEN = CONFIG.replace("type: Prometheus,", "type: Prometheus, token: abc,")


PLUGINS = "scheduler-plugins/kube-scheduler"
RELEASES = ("35.7", "34.7", "33.5", "32.7", "31.8", "30.12", "29.8", "28.9", "27.8", "26.7", "25.12", "24.9", "23.10")


def degraded(text: str, **spec: object) -> str:
    world = Instance(scheduler(**spec), config_map(text))
    world.settle()
    status, reason, message = world.condition("Degraded")
    assert (reason == "ConfigInvalid") is (status == "True")
    return message if status == "True" else ""


@pytest.mark.parametrize(
    ("text", "spec", "message_part"),
    [
        (OLD, {"schedulerImage": IMAGE}, ""),
        (OLD, {"schedulerImage": FOREIGN_IMAGE}, "scheduler-plugins@0.34 does not read v1beta3"),
        (OLD, {"schedulerImage": FOREIGN_IMAGE.replace("34.7", "28.9")}, ""),
        (PEAKS, {"schedulerImage": FOREIGN_IMAGE}, ""),
        (PEAKS, {"schedulerImage": FOREIGN_IMAGE.replace("34.7", "29.8")}, 'ScorePlugin "Peaks" does not exist in'),
        (DEFAULT_NAME, {}, "competes with the cluster's own"),
        (DEFAULT_NAME, {"allowDefaultSchedulerName": True}, ""),
        (ODD_NAME, {}, 'profiles[0].schedulerName: Invalid value: "$(touch X)`id`;|": must be a DNS-1123 subdomain'),
        (ODD_NAME, {"schedulerImage": FOREIGN_IMAGE}, "must be a DNS-1123 subdomain"),
        (TOKEN, {}, "a token in a ConfigMap can be read by everyone"),
        (TOKEN, {"allowTokenInConfigMap": True}, ""),
    ],
    ids=[
        "old",
        "old too old",
        "old read",
        "Peaks",
        "no Peaks",
        "default",
        "default aloud",
        "odd name",
        "odd name, Go",
        "token",
        "token aloud",
    ],
)
def test_a_configuration_is_judged_for_the_image_it_is_for(
    text: str, spec: dict[str, object], message_part: str
) -> None:
    message = degraded(text, **spec)
    assert message_part in message
    assert bool(message) == bool(message_part)


@pytest.mark.parametrize(("image", "passed"), [(IMAGE, True), (FOREIGN_IMAGE, False)])
def test_only_our_scheduler_is_told_that_the_name_is_allowed(image: str, passed: bool) -> None:
    world = Instance(scheduler(schedulerImage=image, allowDefaultSchedulerName=True), config_map(DEFAULT_NAME))
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
    world = Instance(scheduler(schedulerImage=image, configPolicy="PassThrough"), config_map())
    world.settle()
    pod_spec = world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]
    assert pod_spec["containers"][0]["command"] == [command]
    assert pod_spec["securityContext"]["runAsUser"] > 0, "those up to 0.28 would run as root"


def test_an_image_of_the_go_scheduler_gets_the_roles_it_is_written_for_and_ours_does_not() -> None:
    world = Instance(scheduler(schedulerImage=FOREIGN_IMAGE, rollout={"canary": False}), config_map()).start()
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
    world = Instance(scheduler(allowDefaultSchedulerName=True), config_map(DEFAULT_NAME)).start()
    before = world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"]
    world.edit(allowDefaultSchedulerName=False)
    world.settle()
    assert world.condition("Degraded")[1] == "ConfigInvalid"
    assert world.get("Deployment", "secondary-scheduler")["spec"]["template"]["spec"] == before


OWN = "registry.example.com/my/scheduler:1.2"
GPU = [{"name": "GpuAware", "points": ["score"]}]
GPU_CONFIG = CONFIG.replace("TargetLoadPacking\n        weight", "GpuAware\n        weight")


@pytest.mark.parametrize(
    ("text", "spec", "message_part"),
    [
        (GPU_CONFIG, {"schedulerImage": OWN}, "declare it under extraPlugins"),
        (GPU_CONFIG, {"schedulerImage": OWN, "extraPlugins": GPU}, ""),
        (GPU_CONFIG, {"schedulerImage": IMAGE, "flavour": "custom", "extraPlugins": GPU}, ""),
        (GPU_CONFIG, {"schedulerImage": OWN, "extraPlugins": [{"name": "GpuAware", "points": ["filter"]}]}, "Score"),
        (PEAKS, {"schedulerImage": OWN}, ""),
        (PEAKS, {"schedulerImage": OWN, "flavour": "ours"}, "only from a load-watcher"),
        (OLD, {"schedulerImage": IMAGE, "flavour": "scheduler-plugins@0.34.7"}, "0.34 does not read v1beta3"),
    ],
    ids=["not told", "told", "told of ours", "no score", "custom", "a mirror of ours", "not ours at all"],
)
def test_a_configuration_is_judged_for_what_its_user_says_the_image_is(
    text: str, spec: dict[str, object], message_part: str
) -> None:
    message = degraded(text, **spec)
    assert message_part in message
    assert bool(message) == bool(message_part)


def test_an_image_of_ours_by_another_name_must_report_its_configuration() -> None:
    world = Instance(scheduler(schedulerImage=OWN, flavour="ours"), config_map())
    world.settle()
    assert not {name for name in world.names("ClusterRoleBinding") if "system" in name}
    world.roll_out(report=False)
    world.settle()
    assert world.condition("Progressing")[1] == "WaitingForReport"


@pytest.mark.parametrize(("flavour", "command"), [("0.29.7", "/kube-scheduler"), ("0.29", "/bin/kube-scheduler")])
def test_a_release_by_another_name_is_started_as_that_release(flavour: str, command: str) -> None:
    world = Instance(scheduler(schedulerImage=OWN, flavour=f"scheduler-plugins@{flavour}"), config_map()).start()
    world.edit(logLevel="Debug", env=[{"name": "A", "value": "b"}])
    world.settle()
    for name in ("secondary-scheduler", "secondary-scheduler-canary"):
        pod_spec = world.get("Deployment", name)["spec"]["template"]["spec"]
        assert pod_spec["containers"][0]["command"] == [command]
    assert {"secondary-scheduler:system-kube-scheduler"} <= world.names("ClusterRoleBinding")


def test_to_say_what_the_images_name_tells_restarts_nothing() -> None:
    world = Instance(scheduler(), config_map()).start()
    world.edit(flavour="ours")
    world.settle()
    assert not world.writes


def test_another_flavour_is_proven_as_another_image_is() -> None:
    world = Instance(scheduler(schedulerImage=OWN), config_map()).start()
    world.edit(flavour="ours")
    world.settle()
    assert world.condition("Progressing")[1] == "Proving"


def test_plugins_that_the_catalogue_does_not_have_get_no_rights_and_that_is_reported() -> None:
    world = Instance(scheduler(schedulerImage=OWN, extraPlugins=GPU), config_map(GPU_CONFIG)).start()
    assert not {name for name in world.names("ClusterRoleBinding") if "gpuaware" in name}
    status, _, message = world.condition("Degraded")
    assert status == "False"
    assert "GpuAware of spec.extraPlugins gets no rights from the operator" in message
    world.put(config_map(CONFIG))
    world.settle()
    assert "GpuAware" not in world.condition("Degraded")[2], "it does not run"


def test_what_is_passed_through_is_not_judged_by_any_flavour() -> None:
    spec = {"flavour": "scheduler-plugins@0.34", "configPolicy": "PassThrough", "schedulerImage": OWN}
    assert degraded(GPU_CONFIG, **spec) == ""


REFUSED = [
    ({"schedulerImage": None}, "ImageMissing", "spec.schedulerImage is empty"),
    (
        {"flavour": "scheduler-plugins@0.99"},
        "SpecInvalid",
        'spec.flavour: flavour "scheduler-plugins@0.99" is not known',
    ),
    ({"extraPlugins": GPU}, "SpecInvalid", "spec.extraPlugins is only for custom images, and this one is ours"),
    (
        {"flavour": "custom", "extraPlugins": [{"name": "Coscheduling", "points": ["score"]}]},
        "SpecInvalid",
        'spec.extraPlugins[0].name: "Coscheduling" is a plugin of the catalogue',
    ),
    ({"extraArgs": ["-v=4", "--config=/x"]}, "SpecInvalid", "spec.extraArgs[1]: --config is set by the operator"),
    ({"extraArgs": ["--leader-elect=false"]}, "SpecInvalid", "spec.extraArgs[0]: --leader-elect is"),
    ({"extraArgs": ["--leader_elect_resource_name", "x"]}, "SpecInvalid", "spec.extraArgs[0]: --leader_elect_res"),
    ({"extraArgs": ["--secure-port=1"]}, "SpecInvalid", "spec.extraArgs[0]: --secure-port is"),
]


@pytest.mark.parametrize(
    ("spec", "reason", "message_part"), REFUSED, ids=[f"{message_part[:30]}" for *_, message_part in REFUSED]
)
def test_a_spec_that_nothing_can_be_made_of_keeps_what_runs_and_what_belongs_to_it(
    spec: dict[str, object], reason: str, message_part: str
) -> None:
    world = Instance(scheduler(), config_map()).start()
    before = world.get("Deployment", "secondary-scheduler")["spec"]
    world.put(config_map(CONFIG.replace("weight: 3", "weight: 4")))
    world.edit(**spec)
    world.settle()
    status, actual_reason, message = world.condition("Degraded")
    assert (status, actual_reason) == ("True", reason)
    assert message_part in message
    assert (reason, message) in world.events
    assert world.condition("Available")[0] == "True"
    assert "canary" not in "".join(map(str, world.objects)), "nothing is proven"
    for key in [key for key in world.objects if key.kind in ("Deployment", "Service", "NetworkPolicy")]:
        del world.objects[key]
    world.settle()
    assert world.get("Deployment", "secondary-scheduler")["spec"] == before
    assert world.names("NetworkPolicy")


@pytest.mark.parametrize(
    "spec", [spec for spec, *_ in REFUSED], ids=[f"{message_part[:30]}" for *_, message_part in REFUSED]
)
def test_nothing_is_started_of_a_spec_that_nothing_can_be_made_of(spec: dict[str, object]) -> None:
    world = Instance(scheduler(**spec), config_map())
    world.settle()
    assert world.condition("Degraded")[0] == "True"
    assert not world.names("Deployment")
