# ruff: noqa: E501 -- tables whose rows are whole messages, one to a line
"""What each release of scheduler-plugins decodes and has, from 0.22 on."""

from pathlib import Path

import pytest

from scheduler.catalog import ExtensionPoint
from scheduler.config import (
    ConfigurationError,
    convert_text,
    flavour_named,
    flavour_names,
    flavour_of,
    load_configuration,
)

CASES = Path(__file__).parents[3] / "data/cases"
IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v"


def refusals(text: str, release: str) -> list[str]:
    """What is wrong with a configuration for a release."""
    try:
        load_configuration(text, source="f", flavour=flavour_of(IMAGE + release), external_load=True)
    except ConfigurationError as error:
        return [f"{problem.path}: {problem.message}; {problem.hint}".rstrip("; ") for problem in error.problems]
    return []


def written(version: str, profile: str = "", top: str = "") -> str:
    head = f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n"
    return f"{head}{top}profiles:\n- schedulerName: one\n{profile}"


def args(plugin: str, content: str, plugins: str = "") -> str:
    return f"  plugins: {{{plugins}}}\n  pluginConfig: [{{name: {plugin}, args: {content}}}]\n"


@pytest.mark.parametrize(
    ("file", "release", "refused"),
    [
        ("cosched-pgr", "0.29.8", ['profiles[0].pluginConfig[0].args.podGroupRejectPercentage: unknown field "podGroupRejectPercentage"; scheduler-plugins@0.29 would not start: 0.34 and later have it']),
        ("cosched-pgr", "0.33.5", ['profiles[0].pluginConfig[0].args.podGroupRejectPercentage: unknown field "podGroupRejectPercentage"; scheduler-plugins@0.33 would not start: 0.34 and later have it']),
        ("cosched-pgr", "0.34.7", []),
        ("nrt-022-reserve", "0.22.6", ['profiles[0].plugins.reserve.enabled[0].name: plugin "NodeResourceTopologyMatch" does not extend ReservePlugin plugin; it extends filter, score; 0.24 and later have reserve']),
        ("nrt-022-reserve", "0.24.9", []),
        ("profile-percentage-025", "0.25.7", ['profiles[0].percentageOfNodesToScore: unknown field "percentageOfNodesToScore"; scheduler-plugins@0.25 would not start: 0.26 and later have it in v1']),
        ("profile-percentage-025", "0.26.7", []),
        ("delaycache-026", "0.26.7", ['delayCacheUntilActive: unknown field "delayCacheUntilActive"; scheduler-plugins@0.26 would not start: 0.28 and later have it in v1']),
        ("delaycache-026", "0.28.9", []),
    ],
)  # fmt: skip
def test_the_reported_configurations_are_refused_for_the_images_that_would_not_start(
    file: str, release: str, refused: list[str]
) -> None:
    assert refusals((CASES / f"images/{file}.yaml").read_text(), release) == refused


@pytest.mark.parametrize(
    ("text", "field", "accepted", "refused"),
    [
        # Fields of args.
        (args("Coscheduling", "{podGroupBackoffSeconds: 3}"), "podGroupBackoffSeconds", ["v1 0.26.7", "v1beta2 0.27.9", "v1 0.35.7"], ["v1 0.25.12", "v1beta3 0.23.10"]),
        (args("NodeResourceTopologyMatch", "{cacheResyncPeriodSeconds: 3}"), "cacheResyncPeriodSeconds", ["v1beta3 0.24.9", "v1 0.25.12"], ["v1beta2 0.22.6", "v1beta3 0.23.10"]),
        (args("NodeResourceTopologyMatch", "{discardReservedNodes: true}"), "discardReservedNodes", ["v1 0.26.7"], ["v1 0.25.12", "v1beta2 0.24.9"]),
        (args("NodeResourceTopologyMatch", "{cache: {informerMode: Shared}}"), "informerMode", ["v1 0.28.9", "v1beta3 0.28.9"], ["v1 0.27.9"]),
        (args("NodeResourceTopologyMatch", "{cache: {informerMode: Shared}}"), 'unknown field "cache"', ["v1 0.28.9"], ["v1 0.25.12"]),
        (args("NodeResourceTopologyMatch", "{cache: {resyncScope: All}}"), "resyncScope", ["v1 0.29.8", "v1 0.34.7"], ["v1 0.28.9", "v1beta2 0.26.7"]),
        (args("NodeResourceTopologyMatch", "{preemptionMode: Enabled}"), "preemptionMode", ["v1 0.35.7"], ["v1 0.34.7", "v1 0.35.4-devel"]),
        (args("TargetLoadPacking", "{metricProvider: {type: Prometheus, insecureSkipVerify: true}}"), "insecureSkipVerify", ["v1beta2 0.23.10", "v1 0.34.7"], ["v1beta1 0.22.6", "v1beta2 0.22.6"]),
        (args("LoadVariationRiskBalancing", "{metricProvider: {insecureSkipVerify: true}}"), "insecureSkipVerify", ["v1beta3 0.23.10"], ["v1beta2 0.22.6"]),
        (args("Coscheduling", "{kubeMaster: m}"), "kubeMaster", ["v1beta1 0.22.6"], ["v1beta2 0.22.6", "v1beta3 0.23.10", "v1 0.29.8"]),
        (args("Coscheduling", "{deniedPGExpirationTimeSeconds: 3}"), "deniedPGExpirationTimeSeconds", ["v1beta1 0.22.6", "v1beta2 0.27.9"], ["v1beta3 0.24.9", "v1 0.25.12"]),
        (args("InterPodAffinity", "{ignorePreferredTermsOfExistingPods: true}"), "ignorePreferredTermsOfExistingPods", ["v1 0.27.9", "v1beta2 0.27.9"], ["v1 0.26.7", "v1beta3 0.24.9"]),
        (args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, minDomains: 2}]}"), "minDomains", ["v1 0.25.12", "v1beta3 0.24.9"], ["v1beta3 0.23.10", "v1beta2 0.22.6"]),
        (args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor}]}"), "nodeTaintsPolicy", ["v1 0.25.12"], ["v1beta3 0.24.9"]),
        # Values.
        (args("NodeResourceTopologyMatch", "{scoringStrategy: {type: LeastNUMANodes}}"), 'unknown value "LeastNUMANodes"', ["v1 0.25.12", "v1beta2 0.25.7"], ["v1beta3 0.24.9", "v1beta2 0.22.6"]),
        # Plugin sets of the profile.
        ("  plugins: {preEnqueue: {disabled: [{name: SchedulingGates}]}}\n", "preEnqueue", ["v1 0.26.7", "v1beta2 0.26.7"], ["v1 0.25.12", "v1beta2 0.22.6"]),
        ("  plugins: {multiPoint: {enabled: [{name: NodeResourcesAllocatable}]}}\n", "multiPoint", ["v1beta2 0.23.10", "v1beta3 0.23.10"], ["v1beta2 0.22.6", "v1beta1 0.22.6"]),
        ("  plugins: {placementScore: {}}\n", "placementScore", [], ["v1 0.34.7", "v1 0.35.7"]),
        # Extension points.
        ("  plugins: {postBind: {enabled: [{name: Coscheduling}]}}\n", "PostBindPlugin", ["v1beta1 0.22.6", "v1 0.25.12"], ["v1 0.26.7", "v1 0.34.7"]),
        ("  plugins: {postBind: {enabled: [{name: NodeResourceTopologyMatch}]}}\n", "PostBindPlugin", ["v1 0.26.7"], ["v1 0.25.12", "v1beta2 0.22.6"]),
        ("  plugins: {preFilter: {enabled: [{name: NodeResourceTopologyMatch}]}}\n", "PreFilterPlugin", ["v1 0.35.7"], ["v1 0.34.7"]),
        ("  plugins: {preScore: {enabled: [{name: VolumeBinding}]}}\n", "PreScorePlugin", ["v1 0.30.12"], ["v1 0.29.8"]),
        ("  plugins: {preScore: {enabled: [{name: NodeResourcesFit}]}}\n", "PreScorePlugin", ["v1 0.27.9"], ["v1 0.26.7"]),
        ("  plugins: {preEnqueue: {enabled: [{name: DefaultPreemption}]}}\n", "PreEnqueuePlugin", ["v1 0.32.7"], ["v1 0.31.8"]),
        ("  plugins: {reserve: {enabled: [{name: GangScheduling}]}}\n", "GangScheduling", ["v1 0.35.7"], ["v1 0.34.7"]),
        ("  plugins: {preFilter: {enabled: [{name: GangScheduling}]}}\n", "PreFilterPlugin", [], ["v1 0.35.7"]),
        ("  plugins: {preBind: {enabled: [{name: DynamicResources}]}}\n", "PreBindPlugin", ["v1 0.30.12"], ["v1 0.29.8"]),
        ("  plugins: {postBind: {enabled: [{name: DynamicResources}]}}\n", "PostBindPlugin", ["v1 0.31.8"], ["v1 0.32.7"]),
        # Plugins.
        ("  plugins: {score: {enabled: [{name: Peaks}]}}\n", '"Peaks" does not exist', ["v1 0.31.8"], ["v1 0.30.12"]),
        ("  plugins: {score: {enabled: [{name: NodeMetadata}]}}\n", '"NodeMetadata" does not exist', ["v1 0.35.7"], ["v1 0.35.4-devel", "v1 0.34.7"]),
        ("  plugins: {postFilter: {enabled: [{name: CrossNodePreemption}]}}\n", '"CrossNodePreemption" does not exist', ["v1beta2 0.22.6"], ["v1beta2 0.23.10", "v1 0.34.7"]),
        ("  plugins: {filter: {enabled: [{name: NetworkOverhead}]}}\n", "NetworkOverhead", ["v1beta3 0.24.9", "v1 0.25.12"], ["v1beta3 0.23.10", "v1beta2 0.24.9"]),
        ("  plugins: {score: {enabled: [{name: LowRiskOverCommitment}]}}\n", "LowRiskOverCommitment", ["v1 0.26.7", "v1beta3 0.28.9"], ["v1 0.25.12", "v1beta2 0.27.9"]),
        ("  plugins: {score: {enabled: [{name: SelectorSpread}]}}\n", "SelectorSpread", ["v1beta3 0.28.9", "v1beta2 0.22.6"], ["v1 0.28.9", "v1 0.29.8"]),
        ("  plugins: {filter: {enabled: [{name: CinderLimits}]}}\n", "CinderLimits", ["v1 0.30.12", "v1beta2 0.22.6"], ["v1 0.31.8"]),
        ("  plugins: {filter: {enabled: [{name: NodeLabel}]}}\n", "NodeLabel", ["v1beta1 0.22.6"], ["v1beta2 0.22.6", "v1beta3 0.24.9"]),
    ],
)  # fmt: skip
def test_a_release_accepts_what_it_has_and_nothing_else(
    text: str, field: str, accepted: list[str], refused: list[str]
) -> None:
    for case in accepted:
        version, release = case.split()
        assert not [line for line in refusals(written(version, text), release) if field in line], case
    for case in refused:
        version, release = case.split()
        assert [line for line in refusals(written(version, text), release) if field in line], case


@pytest.mark.parametrize("release", [name for name in flavour_names() if "@" in name])
def test_a_plain_configuration_is_valid_for_every_release_in_each_of_its_versions(release: str) -> None:
    flavour = flavour_named(release)
    for version in flavour.versions:
        assert refusals(written(version), release.partition("@")[2] + ".99") == []


def test_args_that_a_release_ignores_are_a_warning() -> None:
    text = written("v1", args("DynamicResources", "{bindingTimeout: 5s}"))
    configuration = load_configuration(text, source="f", flavour=flavour_of(f"{IMAGE}0.29.8"))
    assert [warning.message for warning in configuration.warnings] == [
        "plugin DynamicResources takes no args: these have no effect"
    ]
    assert any("bindingTimeout" in line for line in refusals(text, "0.34.7"))


def test_converting_for_an_image_refuses_what_it_lacks_in_v1() -> None:
    text = written("v1beta3", args("NodeResourceTopologyMatch", "{cache: {resyncScope: All}}"))
    with pytest.raises(ConfigurationError, match=r'"resyncScope"; scheduler-plugins@0\.28 would not start'):
        convert_text(text, source="f", flavour=flavour_of(f"{IMAGE}0.28.9"))
    assert "resyncScope: All" in convert_text(text, source="f", flavour=flavour_of(f"{IMAGE}0.29.8"))[0]


@pytest.mark.parametrize(("version", "release"), [("v1beta2", "0.22.6"), ("v1beta3", "0.24.9"), ("v1beta2", "0.23.10")])
def test_nothing_is_converted_for_an_image_that_does_not_read_v1(version: str, release: str) -> None:
    text = written(version)
    assert refusals(text, release) == []
    with pytest.raises(ConfigurationError, match="does not read v1 and would not start with it: it reads v1beta"):
        convert_text(text, source="f", flavour=flavour_of(IMAGE + release))
    assert "apiVersion: kubescheduler.config.k8s.io/v1\n" in convert_text(text, source="f")[0]


@pytest.mark.parametrize(
    ("point", "plugin", "release", "elsewhere"),
    [
        ("reserve", "NodeResourceTopologyMatch", "0.22.6", "0.24 and later have reserve"),
        ("postBind", "Coscheduling", "0.26.7", "the last to have postBind was 0.25"),
        ("score", "DynamicResources", "0.34.7", "0.35 and later have score"),
        ("preScore", "DynamicResources", "0.33.5", "the last to have preScore was 0.31"),
    ],
)
def test_a_point_that_the_image_lacks_is_refused_with_the_releases_that_have_it(
    point: str, plugin: str, release: str, elsewhere: str
) -> None:
    version = flavour_of(IMAGE + release).versions[0]
    text = written(version, f"  plugins: {{{point}: {{enabled: [{{name: {plugin}}}]}}}}\n")
    (line,) = refusals(text, release)
    assert line.endswith(f"; {elsewhere}")


R22 = (CASES / "r22/config.yaml").read_text()


def test_r22_post_bind_of_coscheduling_is_of_its_release_and_dropped_by_convert() -> None:
    lines = refusals(R22, "0.22.6")
    assert [line.partition(":")[0] for line in lines] == [
        "profiles[0].pluginConfig[0].args.kubeMaster",
        "profiles[0].pluginConfig[0].args.kubeConfigPath",
    ], "both are of v1beta1; postBind is not among them"
    converted, before = convert_text(R22, source="f")
    assert [warning.message for warning in before.warnings if "postBind" in warning.message] == [
        "Coscheduling extended postBind up to scheduler-plugins 0.25: it is dropped"
    ]
    after = load_configuration(converted, source="f").profiles[0]
    assert not after.plugins(ExtensionPoint.POST_BIND)
    assert [plugin.name for plugin in after.plugins(ExtensionPoint.PERMIT)] == ["Coscheduling"]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2", "v1beta3"])
def test_a_point_that_a_plugin_lost_is_dropped_from_every_older_version(version: str) -> None:
    text = written(version, "  plugins: {postBind: {enabled: [{name: Coscheduling}]}}\n")
    assert "it is dropped" in str(convert_text(text, source="f")[1].warnings)


def test_a_point_that_a_plugin_lost_is_refused_in_v1_with_the_last_release() -> None:
    with pytest.raises(ConfigurationError, match=r"\(up to 0\.25 also postBind\)"):
        load_configuration(written("v1", "  plugins: {postBind: {enabled: [{name: Coscheduling}]}}\n"), source="f")
