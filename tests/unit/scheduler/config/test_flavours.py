# ruff: noqa: E501 -- tables whose rows are whole messages, one to a line
"""The image that a configuration is for decides what is valid."""

import pytest

from scheduler.catalog import ExtensionPoint
from scheduler.config import (
    ConfigurationError,
    ExtraPlugin,
    Flavour,
    UnknownFlavourError,
    custom_flavour,
    flavour_named,
    flavour_names,
    flavour_of,
    load_configuration,
)

HEAD = (
    "apiVersion: kubescheduler.config.k8s.io/{}\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: mine\n"
)


def refused(profile: str, flavour: Flavour | str, version: str = "v1") -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(HEAD.format(version) + profile, source="f", flavour=flavour)
    return [f"{problem.path}: {problem.message}; {problem.hint}".rstrip("; ") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("localhost/secondary-scheduler/kube-scheduler:0.1.0", "ours"),
        ("quay.io:443/mirror/secondary-scheduler/kube-scheduler@sha256:" + "a" * 64, "ours"),
        ("secondary-scheduler/kube-scheduler", "ours"),
        ("my-secondary-scheduler/kube-scheduler:1", "custom"),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7", "scheduler-plugins@0.34"),
        ("k8s.gcr.io/scheduler-plugins/kube-scheduler:v0.22.6", "scheduler-plugins@0.22"),
        ("mirror.local:5000/a/scheduler-plugins/kube-scheduler:v0.28.9@sha256:" + "b" * 64, "scheduler-plugins@0.28"),
        ("mirror.local/scheduler-plugins-kube-scheduler:0.29.8", "scheduler-plugins@0.29"),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.35.7-amd64", "scheduler-plugins@0.35"),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler@sha256:" + "c" * 64, "custom"),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler:latest", "custom"),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.99.0", "custom"),
        ("registry.k8s.io/scheduler-plugins/controller:v0.34.7", "custom"),
        ("registry.k8s.io/kube-scheduler:v1.34.4", "custom"),
        ("", "custom"),
    ],
)
def test_an_image_tells_its_flavour_wherever_it_is_mirrored(image: str, name: str) -> None:
    assert flavour_of(image).name == name


@pytest.mark.parametrize(
    ("name", "versions", "user", "plugins", "not_yet"),
    [
        ("scheduler-plugins@0.22", {"v1beta1", "v1beta2"}, 0, {"Coscheduling", "PreemptionToleration"}, {"NetworkOverhead", "SchedulingGates"}),
        ("scheduler-plugins@0.24", {"v1beta2", "v1beta3"}, 0, {"NetworkOverhead", "TopologicalSort"}, {"LowRiskOverCommitment"}),
        ("scheduler-plugins@0.25", {"v1", "v1beta2", "v1beta3"}, 0, {"TargetLoadPacking"}, {"LowRiskOverCommitment"}),
        ("scheduler-plugins@0.28", {"v1", "v1beta3"}, 0, {"LowRiskOverCommitment", "SySched", "DynamicResources"}, {"Peaks"}),
        ("scheduler-plugins@0.29", {"v1"}, 65532, {"SySched"}, {"Peaks"}),
        ("scheduler-plugins@0.31.8", {"v1"}, 65532, {"Peaks", "QOSSort", "PodState", "CapacityScheduling"}, set()),
        ("scheduler-plugins@0.35", {"v1"}, 65532, {"Peaks"}, {"HighLoadFilter"}),
        ("ours", {"v1", "v1beta1", "v1beta2", "v1beta3"}, 65532, {"TargetLoadPacking", "HighLoadFilter"}, {"SecondarySchedulerOptions", "Nope"}),
    ],
)  # fmt: skip
def test_the_table_knows_each_release(
    name: str, versions: set[str], user: int, plugins: set[str], not_yet: set[str]
) -> None:
    flavour = flavour_named(name)
    assert set(flavour.versions) == versions
    assert flavour.user == user
    assert flavour.command == ("/bin/kube-scheduler",)
    assert all(flavour.find(plugin) for plugin in plugins)
    assert not any(flavour.find(plugin) for plugin in not_yet)
    assert plugins <= set(flavour.names())


def test_an_unknown_flavour_lists_the_known_ones_or_suggests_one() -> None:
    with pytest.raises(UnknownFlavourError, match=r'flavour "scheduler-plugins@0\.99" is not known; did you mean'):
        flavour_named("scheduler-plugins@0.99")
    assert {flavour_named(name).name for name in flavour_names()} == set(flavour_names())


@pytest.mark.parametrize(
    ("flavour", "version", "profile", "expected"),
    [
        ("scheduler-plugins@0.29", "v1beta3", "", "apiVersion: scheduler-plugins@0.29 does not read v1beta3 and would not start: it reads v1; run: secondary-scheduler convert FILE"),
        ("scheduler-plugins@0.24", "v1", "", "apiVersion: scheduler-plugins@0.24 does not read v1 and would not start: it reads v1beta3, v1beta2; write one of v1beta3, v1beta2"),
        ("scheduler-plugins@0.29", "v1", "  plugins: {score: {enabled: [{name: Peaks}]}}\n", 'profiles[0].plugins.score.enabled[0].name: ScorePlugin "Peaks" does not exist in scheduler-plugins@0.29; 0.31 and later have it'),
        ("scheduler-plugins@0.34", "v1", "  pluginConfig: [{name: TargetLoadPacking, args: {targetUtilisation: 3}}]\n", 'profiles[0].pluginConfig[0].args.targetUtilisation: unknown field "targetUtilisation"; did you mean "targetUtilization"?'),
        ("scheduler-plugins@0.34", "v1", "  pluginConfig: [{name: TargetLoadPacking, args: {metricProvider: {type: Prometheus, token: x}}}]\n", "profiles[0].pluginConfig[0].args.metricProvider.token: a token in a ConfigMap can be read by everyone who can read ConfigMaps; give watcherAddress instead, or set allowTokenInConfigMap: this image can read it from nowhere else"),
        ("custom", "v1", "  plugins: {score: {enabled: [{name: MyPlugin}]}}\n", 'profiles[0].plugins.score.enabled[0].name: ScorePlugin "MyPlugin" does not exist; declare it under extraPlugins if the image has it'),
        ("ours", "v1", "  plugins: {score: {enabled: [{name: MyPlugin}]}}\n", 'profiles[0].plugins.score.enabled[0].name: ScorePlugin "MyPlugin" does not exist; a plugin of your own needs an image of your own that has it (--image, or image and extraPlugins in a stack), or a Python package for this project\'s image'),
        ("ours", "v1", "  plugins: {score: {enabled: [{name: Peaks}]}}\n", "profiles[0].pluginConfig.WatcherAddress: missing, but Peaks reads the nodes' load only from a load-watcher; give its URL"),
    ],
)  # fmt: skip
def test_features_that_the_image_does_not_have_are_refused(
    flavour: str, version: str, profile: str, expected: str
) -> None:
    assert refused(profile, flavour, version) == [expected]


def test_the_same_sources_are_accepted_if_the_image_reads_them_or_the_load_is_external() -> None:
    profile = "  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}\n"
    load_configuration(HEAD.format("v1") + profile, source="f", flavour="scheduler-plugins@0.34")
    load_configuration(HEAD.format("v1") + profile, source="f", external_load=True)


def test_a_custom_image_brings_plugins_whose_args_pass_through_with_a_warning() -> None:
    flavour = custom_flavour([ExtraPlugin("MyPlugin", frozenset({ExtensionPoint.SCORE, ExtensionPoint.FILTER}))])
    profile = "  plugins: {multiPoint: {enabled: [{name: MyPlugin, weight: 2}]}}\n  pluginConfig: [{name: MyPlugin, args: {anything: [1]}}]\n"
    configuration = load_configuration(HEAD.format("v1") + profile, source="f", flavour=flavour)
    assert configuration.profiles[0].plugins(ExtensionPoint.SCORE)[-1].name == "MyPlugin"
    assert [warning.message for warning in configuration.warnings] == ["args of MyPlugin are passed through unchecked"]
    assert refused("  plugins: {bind: {enabled: [{name: MyPlugin}]}}\n", flavour) == [
        'profiles[0].plugins.bind.enabled[0].name: plugin "MyPlugin" does not extend BindPlugin plugin; it extends filter, score'
    ]


def test_a_warning_says_that_other_images_ignore_our_options() -> None:
    profile = "  pluginConfig: [{name: SecondarySchedulerOptions, args: {compatibility: upstream}}, {name: Elsewhere, args: {a: 1}}]\n"
    configuration = load_configuration(HEAD.format("v1") + profile, source="f", flavour="scheduler-plugins@0.34")
    assert [warning.message for warning in configuration.warnings] == [
        "only this project's own scheduler has SecondarySchedulerOptions: scheduler-plugins@0.34 ignores it",
        'args of "Elsewhere", which scheduler-plugins@0.34 does not have, are not checked',
    ]


@pytest.mark.parametrize("flavour", ["ours", "scheduler-plugins@0.34"])
@pytest.mark.parametrize(
    ("extender", "expected"),
    [
        ("{urlPrefix: 'http://x', prioritizeVerb: p}", "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it"),
        ("{urlPrefix: 'http://x', managedResources: [{name: a.b/c}]}, {urlPrefix: 'http://y', managedResources: [{name: a.b/c}]}", 'extenders[1].managedResources[0].name: Invalid value: "a.b/c": duplicate extender managed resource name'),
        ("{urlPrefix: 'http://x', managedResources: [{name: cpu}]}", 'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name'),
        ("{urlPrefix: 'http://x', bindVerb: b}, {urlPrefix: 'http://y', bindVerb: b}", 'extenders[1]: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind'),
    ],
    ids=["weight", "duplicate", "resource", "binders"],
)  # fmt: skip
def test_extenders_are_checked_as_upstream_checks_them(extender: str, expected: str, flavour: str) -> None:
    text = HEAD.format("v1") + f"extenders: [{extender}]\n"
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(text, source="f", flavour=flavour)
    assert [f"{problem.path}: {problem.message}" for problem in caught.value.problems] == [expected]
    fine = HEAD.format("v1") + "extenders: [{urlPrefix: 'http://x', filterVerb: f}]\n"
    assert load_configuration(fine, source="f", flavour=flavour).model.extenders[0].http_timeout == 0.0
