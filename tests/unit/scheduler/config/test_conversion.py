# ruff: noqa: E501 -- tables whose rows are whole messages, one to a line
"""v1beta1, v1beta2 and v1beta3: the same plugins run with the same weights, and every change is reported."""

from typing import Any

import pytest
import yaml

from scheduler.catalog import ExtensionPoint, NodeResourcesFitArgs
from scheduler.config import (
    Configuration,
    ConfigurationError,
    adapt_text,
    convert_text,
    flavour_named,
    load_configuration,
)
from scheduler.config.beta import version_of

P = ExtensionPoint
BETA1 = {
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "InterPodAffinity": 1,
    "NodeResourcesFit": 1,
    "NodeAffinity": 1,
    "PodTopologySpread": 2,
    "TaintToleration": 1,
}
V1 = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "VolumeBinding": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def text_of(version: str, profile: str, top: str = "") -> str:
    head = f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n{top}"
    return f"{head}profiles:\n- schedulerName: mine\n{profile}"


def load(text: str) -> Configuration:
    # An image of the newest release runs every default plugin.
    return load_configuration(
        convert_text(text, source="f")[0], source="f", flavour="scheduler-plugins@0.34", external_load=True
    )


def scores(text: str) -> dict[str, int]:
    return {plugin.name: plugin.weight for plugin in load(text).profiles[0].plugins(P.SCORE)}


def warnings_of(text: str) -> list[str]:
    return [
        f"{warning.line}:{warning.column} {warning.path}: {warning.message}"
        for warning in convert_text(text, source="f")[1].warnings
        if "left out:" not in warning.message
    ]


def without(plugins: dict[str, int], *names: str) -> dict[str, int]:
    return {name: weight for name, weight in plugins.items() if name not in names}


@pytest.mark.parametrize(
    ("version", "profile", "expected"),
    [
        ("v1beta1", "", BETA1),
        ("v1beta2", "", BETA1),
        ("v1beta3", "", V1),
        ("v1beta1", "  plugins: {score: {disabled: [{name: NodeResourcesLeastAllocated}]}}\n", without(BETA1, "NodeResourcesFit")),
        ("v1beta2", "  plugins: {score: {disabled: [{name: NodeResourcesFit}]}}\n", without(BETA1, "NodeResourcesFit")),
        ("v1beta3", "  plugins: {score: {disabled: [{name: NodeResourcesLeastAllocated}]}}\n", V1),
        ("v1beta2", "  plugins: {score: {disabled: [{name: NodeResourcesLeastAllocated}]}}\n", BETA1),
        ("v1beta1", "  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 4}]}}\n", {"ImageLocality": 4}),
        ("v1beta1", "  plugins: {score: {disabled: [{name: NodeAffinity}], enabled: [{name: NodeAffinity, weight: 7}]}}\n", BETA1 | {"NodeAffinity": 7}),
        ("v1beta2", "  plugins: {score: {enabled: [{name: NodeAffinity, weight: 7}]}}\n", BETA1 | {"NodeAffinity": 7}),
        ("v1beta2", "  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}\n", BETA1 | {"TargetLoadPacking": 1}),
        ("v1beta1", "  plugins: {score: {disabled: [{name: NodeResourcesLeastAllocated}], enabled: [{name: NodeResourcesMostAllocated, weight: 5}]}}\n", BETA1 | {"NodeResourcesFit": 5}),
        ("v1beta1", "  plugins: {score: {disabled: [{name: NodePreferAvoidPods}]}}\n", BETA1),
        ("v1beta1", "  plugins: {score: {disabled: [{name: NodeResourcesMostAllocated}]}}\n", BETA1),
        ("v1beta3", "  plugins: {multiPoint: {enabled: [{name: ImageLocality, weight: 9}]}}\n", V1 | {"ImageLocality": 9}),
    ],
)  # fmt: skip
def test_score_plugins_and_weights_are_those_of_the_source_version(
    version: str, profile: str, expected: dict[str, int]
) -> None:
    assert scores(text_of(version, profile)) == expected


def test_a_file_without_profiles_has_the_old_weights_written_out_too() -> None:
    text = "apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration\n"
    converted = yaml.safe_load(convert_text(text, source="f")[0])
    assert converted["profiles"][0]["schedulerName"] == "default-scheduler"
    assert {"name": "TaintToleration", "weight": 1} in converted["profiles"][0]["plugins"]["score"]["enabled"]


@pytest.mark.parametrize(
    ("old", "args", "strategy"),
    [
        ("NodeResourcesMostAllocated", {"resources": [{"name": "cpu", "weight": 3}]}, {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]}),
        ("NodeResourcesMostAllocated", None, {"type": "MostAllocated"}),
        (
            "RequestedToCapacityRatio",
            {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}], "resources": [{"name": "memory"}]},
            {"type": "RequestedToCapacityRatio", "resources": [{"name": "memory", "weight": 1}], "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}},
        ),
    ],
    ids=["most allocated", "without args", "ratio"],
)  # fmt: skip
@pytest.mark.parametrize(
    "fit", [None, {"ignoredResources": ["example.com/foo"]}], ids=["alone", "beside its filter's args"]
)
def test_an_old_score_plugin_becomes_the_strategy_it_was(
    old: str, args: dict[str, Any] | None, strategy: dict[str, Any], fit: dict[str, Any] | None
) -> None:
    config = [{"name": old, "args": args}] if args is not None else []
    config += [{"name": "NodeResourcesFit", "args": fit}] if fit is not None else []
    score = {"disabled": [{"name": "NodeResourcesLeastAllocated"}], "enabled": [{"name": old, "weight": 2}]}
    data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "mine", "plugins": {"score": score}, "pluginConfig": config}],
    }
    profile = load(yaml.safe_dump(data)).profiles[0]
    converted = profile.args("NodeResourcesFit")
    assert isinstance(converted, NodeResourcesFitArgs)
    by_default = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
    assert converted.to_dict()["scoringStrategy"] == {"resources": by_default, **strategy}
    assert converted.ignored_resources == (fit or {}).get("ignoredResources", [])
    assert ("NodeResourcesFit", 2) in [(plugin.name, plugin.weight) for plugin in profile.plugins(P.SCORE)]


@pytest.mark.parametrize(
    ("version", "profile", "expected"),
    [
        ("v1beta1", "  plugins: {filter: {enabled: [{name: NodeLabel}]}}\n", "profiles[0].plugins.filter.enabled[0].name: NodeLabel cannot be converted; NodeLabel was removed in Kubernetes 1.23: require the label in NodeAffinity's addedAffinity (operator Exists or DoesNotExist), or disable it"),
        ("v1beta1", "  plugins: {score: {enabled: [{name: ServiceAffinity}]}}\n", "profiles[0].plugins.score.enabled[0].name: ServiceAffinity cannot be converted; ServiceAffinity was removed in Kubernetes 1.23: give the pods podAffinity or topologySpreadConstraints over the same labels"),
        ("v1beta1", "  plugins: {score: {enabled: [{name: NodeResourcesMostAllocated}]}}\n", "profiles[0].plugins.score: NodeResourcesLeastAllocated and NodeResourcesMostAllocated both score, and v1 has one NodeResourcesFit with one strategy; disable all but one, for example NodeResourcesLeastAllocated"),
        ("v1beta2", "  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesMostAllocated}]}}\n", 'profiles[0].plugins.score.enabled[0].name: Invalid value: "NodeResourcesMostAllocated": was invalid in version "v1beta2"'),
        ("v1beta3", "  plugins: {score: {enabled: [{name: NodeResourcesMostAllocated}]}}\n", 'profiles[0].plugins.score.enabled[0].name: ScorePlugin "NodeResourcesMostAllocated" does not exist; since v1beta2 it is a strategy of NodeResourcesFit: pluginConfig NodeResourcesFit, args.scoringStrategy.type: MostAllocated'),
        ("v1beta1", "  plugins: {multiPoint: {enabled: [{name: ImageLocality}]}}\n", "profiles[0].plugins.multiPoint: v1beta1 has no multiPoint: it was added in v1beta2 of Kubernetes 1.23; write apiVersion: kubescheduler.config.k8s.io/v1, or give the plugins per extension point"),
        ("v1beta3", "  plugins: {score: {enabled: [{name: NodeAffinty}]}}\n", 'profiles[0].plugins.score.enabled[0].name: ScorePlugin "NodeAffinty" does not exist; did you mean "NodeAffinity"?'),
    ],
    ids=["NodeLabel", "ServiceAffinity", "two strategies", "gone in v1beta2", "gone in v1beta3", "multiPoint too early", "slip"],
)  # fmt: skip
def test_plugins_that_cannot_be_converted_are_explained(version: str, profile: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        convert_text(text_of(version, profile), source="f")
    assert any(line.endswith(expected) or expected in line for line in str(refused.value).splitlines()), str(
        refused.value
    )


@pytest.mark.parametrize(
    ("version", "profile", "top", "expected"),
    [
        ("v1beta1", "", "healthzBindAddress: 0.0.0.0:10251\nmetricsBindAddress: ''\n", ["3:21 healthzBindAddress: healthzBindAddress was removed in v1beta3 and is dropped", "4:21 metricsBindAddress: metricsBindAddress was removed in v1beta3 and is dropped"]),
        ("v1beta2", "", "leaderElection: {resourceLock: endpointsleases}\n", ['3:32 leaderElection.resourceLock: the lock "endpointsleases" was removed and becomes "leases"']),
        ("v1beta1", "  plugins: {score: {enabled: [{name: NodePreferAvoidPods, weight: 5}]}}\n", "", ["5:38 profiles[0].plugins.score.enabled[0].name: NodePreferAvoidPods is left out"]),
        ("v1beta1", "", "", ["1:13 apiVersion: NodePreferAvoidPods, a default plugin of v1beta1 with weight 10000, is left out"]),
        ("v1beta3", "  plugins: {filter: {enabled: [{name: EBSLimits}]}}\n", "", ["5:39 profiles[0].plugins.filter.enabled[0].name: EBSLimits was removed: NodeVolumeLimits covers it"]),
        ("v1beta1", "  pluginConfig: [{name: NodeResourcesMostAllocated, args: {}}]\n", "", ["5:25 profiles[0].pluginConfig[0].name: args of NodeResourcesMostAllocated, which does not score here, are left out"]),
        ("v1beta1", "  pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]\n", "", ["5:71 profiles[0].pluginConfig[0].args.defaultConstraints: v1beta1 read constraints without defaultingType as a List; this is written out"]),
        ("v1beta2", "  pluginConfig: [{name: Coscheduling, args: {deniedPGExpirationTimeSeconds: 3}}]\n", "", ["5:77 profiles[0].pluginConfig[0].args.deniedPGExpirationTimeSeconds: deniedPGExpirationTimeSeconds was removed and is dropped"]),
    ],
    ids=["bind addresses", "lock", "avoided pods enabled", "avoided pods by default", "volume limits", "args of what does not run", "list constraints", "coscheduling"],
)  # fmt: skip
def test_everything_dropped_or_changed_is_reported_at_its_place(
    version: str, profile: str, top: str, expected: list[str]
) -> None:
    lines = warnings_of(text_of(version, profile, top))
    assert lines[0].startswith(f"1:13 apiVersion: {version} was last served by Kubernetes 1.2")
    for line in expected:
        assert line in lines


def test_a_default_plugin_enabled_again_keeps_its_place_or_moves_to_the_end_as_before() -> None:
    def filters(plugins: str) -> list[str]:
        return [
            plugin.name
            for plugin in load(text_of("v1beta2", f"  plugins: {{filter: {plugins}}}\n")).profiles[0].plugins(P.FILTER)
        ]

    again = filters("{enabled: [{name: NodePorts}]}")
    assert again.index("NodePorts") > again.index("NodeName")
    moved = filters("{disabled: [{name: NodeName}], enabled: [{name: NodeName}]}")
    assert moved[-1] == "NodeName"
    assert sorted(moved) == sorted(name for name in again if name != "DynamicResources")


def test_positions_after_conversion_are_those_of_the_file() -> None:
    text = text_of(
        "v1beta1",
        "  plugins: {score: {disabled: [{name: NodeResourcesLeastAllocated}], enabled: [{name: NodeResourcesMostAllocated}]}}\n  pluginConfig:\n  - name: NodeResourcesMostAllocated\n    args:\n      resources:\n      - name: cpu\n        weight: 200\n",
    )
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(text, source="f")
    assert (
        str(refused.value)
        == "f:11:17: profiles[0].pluginConfig[0].args.resources[0].weight: resource weight of cpu not in valid range [1, 100], got 200"
    )


COMMENTED = """\
# Packs nodes.
apiVersion: kubescheduler.config.k8s.io/v1beta1  # to be lifted
kind: KubeSchedulerConfiguration
healthzBindAddress: 0.0.0.0:10251  # probes
# One replica is enough.
leaderElection:
  leaderElect: false
profiles:
  - schedulerName: bin-packer
    plugins:
      score:
        disabled:
          - name: NodeResourcesLeastAllocated  # we pack
          - name: NodePreferAvoidPods  # nobody uses it
        # What we want.
        enabled:
          - name: NodeResourcesMostAllocated  # pack
            weight: 5
    pluginConfig:
      - name: NodeResourcesMostAllocated
        # CPU is what we pay for.
        args:
          resources:
            - name: cpu
              weight: 2  # heavy
            - {name: memory, weight: 1}
"""


def test_every_comment_is_kept_in_its_place() -> None:
    text, _ = convert_text(COMMENTED, source="f")
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "# Packs nodes."
    assert lines[lines.index("# One replica is enough.") + 1] == "leaderElection:"
    assert lines[lines.index("# What we want.") + 1] == "enabled:"
    assert lines[lines.index("# CPU is what we pay for.") + 1] == "args:"
    assert any(line.startswith("- name: NodeResourcesFit") and line.endswith("# we pack") for line in lines)
    assert any(line.startswith("weight: 2") and line.endswith("# heavy") for line in lines)
    assert lines[-3:] == ["# From lines that v1 has no place for:", "# probes", "# nobody uses it"]
    assert "  - schedulerName: bin-packer" in text.splitlines(), "lists are indented as they were"
    assert convert_text(text, source="f")[0] == text, "what is v1 stays as it is"


def test_anchors_that_profiles_share_are_converted_or_refused_but_never_changed_in_meaning() -> None:
    text = text_of(
        "v1beta2", "  plugins: &p {score: {disabled: [{name: ImageLocality}]}}\n- schedulerName: other\n  plugins: *p\n"
    )
    converted = load(text)
    for profile in converted.profiles:
        weights = {plugin.name: plugin.weight for plugin in profile.plugins(P.SCORE)}
        assert weights == without(BETA1, "ImageLocality")


def test_an_anchor_that_a_profile_shares_with_another_part_of_the_file_is_refused_with_what_to_do() -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: &empty {}\nprofiles: [*empty]\n"
    )
    with pytest.raises(ConfigurationError, match="cannot be converted without changing its meaning; expand anchors"):
        convert_text(text, source="f")


def test_an_image_that_reads_the_old_version_gets_it_without_a_word() -> None:
    text = text_of("v1beta3", "")
    configuration = load_configuration(text, source="f", flavour="scheduler-plugins@0.28")
    assert configuration.version == "v1beta3"
    assert not configuration.warnings


@pytest.mark.parametrize("data", [None, [], "x", {"apiVersion": 3}, {"apiVersion": "v1"}], ids=str)
def test_other_data_has_no_version(data: object) -> None:
    assert version_of(data) == ""


@pytest.mark.parametrize(
    "profile",
    ["  plugins: 3\n", "  plugins: {score: []}\n", "  plugins: {score: {enabled: {}}}\n", "  plugins: {score: {enabled: [3, null]}}\n", "  pluginConfig: {}\n", "  pluginConfig: [{name: NodeResourcesMostAllocated, args: []}]\n"],
)  # fmt: skip
def test_shapes_that_are_wrong_are_errors_and_no_crash(profile: str) -> None:
    with pytest.raises(ConfigurationError):
        load_configuration(text_of("v1beta1", profile), source="f")


OF_OURS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
# The only one.
profiles:
- schedulerName: mine
  plugins:
    queueSort:
      enabled: [{name: Coscheduling}]
      disabled: [{name: "*"}]
    score:
      enabled:
      - name: TargetLoadPacking # by load
        weight: 5
      - name: NodeMetadata
    multiPoint:
      enabled:
      - name: HighLoadFilter # of ours
      - name: Coscheduling
  pluginConfig:
  - name: NodeMetadata
    args: {metadataKey: a, metadataSource: Label, metadataType: Number, scoringStrategy: Highest}
  - name: SecondarySchedulerOptions
    args: {compatibility: upstream}
  - name: TargetLoadPacking
    args: {targetUtilization: 60, watcherAddress: "http://watcher.example"}
"""


def test_for_another_image_what_it_lacks_is_left_out_and_named_and_the_rest_stays() -> None:
    text, left_out = adapt_text(OF_OURS, source="mine.yaml", flavour=flavour_named("scheduler-plugins@0.34"))
    assert [(problem.line, problem.loc[-3:]) for problem in left_out] == [
        (14, ("enabled", 1, "name")),
        (17, ("enabled", 0, "name")),
        (20, ("pluginConfig", 0, "name")),
        (22, ("pluginConfig", 1, "name")),
    ]
    profile = yaml.safe_load(text)["profiles"][0]
    former = yaml.safe_load(OF_OURS)["profiles"][0]
    assert profile["plugins"]["score"]["enabled"] == [{"name": "TargetLoadPacking", "weight": 5}]
    assert profile["plugins"]["multiPoint"]["enabled"] == [{"name": "Coscheduling"}]
    assert profile["plugins"]["queueSort"] == former["plugins"]["queueSort"]
    assert profile["pluginConfig"] == [former["pluginConfig"][2]]
    for comment in ("# The only one.", "# by load", "# of ours"):
        assert comment in text


def test_what_every_image_has_is_written_unchanged_for_another_one() -> None:
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration  # mine\nprofiles:\n- schedulerName: a\n"
    assert adapt_text(text, source="a.yaml", flavour=flavour_named("scheduler-plugins@0.34")) == (text, [])


def test_for_our_own_image_nothing_is_left_out() -> None:
    assert adapt_text(OF_OURS, source="mine.yaml", flavour=flavour_named("ours")) == (OF_OURS, [])


def test_a_mistake_is_an_error_and_not_left_out() -> None:
    wrong = OF_OURS.replace("targetUtilization: 60", "targetUtilisation: 60")
    with pytest.raises(ConfigurationError, match="targetUtilisation"):
        adapt_text(wrong, source="mine.yaml", flavour=flavour_named("scheduler-plugins@0.34"))
