# ruff: noqa: E501 -- tables whose rows are whole messages, one to a line
"""Merging with the defaults and expanding multiPoint, as the live kube-scheduler 1.34 was seen to do it."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from scheduler.catalog import ExtensionPoint, PluginDescriptor, TargetLoadPackingArgs, default_plugins, lookup
from scheduler.config import Configuration, ConfigurationError, flavours, load_configuration

P = ExtensionPoint


def load(plugins: dict[str, Any], config: list[dict[str, Any]] | None = None, **options: object) -> Configuration:
    data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "mine", "plugins": plugins, "pluginConfig": config or []}],
    }
    options = {"external_load": True, **options}
    return load_configuration(msgspec.json.encode(data).decode(), source="f", **options)


def effective(plugins: dict[str, Any], point: ExtensionPoint) -> list[tuple[str, int]]:
    return [(plugin.name, plugin.weight) for plugin in load(plugins).profiles[0].plugins(point)]


def problems(plugins: dict[str, Any], config: list[dict[str, Any]] | None = None, **options: object) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(plugins, config, **options)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


def names(*items: str | tuple[str, int]) -> list[dict[str, Any]]:
    return [{"name": item} if isinstance(item, str) else {"name": item[0], "weight": item[1]} for item in items]


def built(name: str) -> bool:
    descriptor = lookup(name)
    return descriptor is not None and descriptor.implemented


UPSTREAM_SCORES = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodeResourcesFit", 1),
    ("VolumeBinding", 1),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
]
DEFAULT_SCORES = [score for score in UPSTREAM_SCORES if built(score[0])]
UPSTREAM_FILTERS = [
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
    "DynamicResources",
]  # fmt: skip


def without(*left_out: str) -> list[tuple[str, int]]:
    return [score for score in DEFAULT_SCORES if score[0] not in left_out]


def test_the_default_profile_runs_the_implemented_ones_of_upstreams() -> None:
    profile = load({}).profiles[0]
    assert effective({}, P.SCORE) == DEFAULT_SCORES
    assert [plugin.name for plugin in profile.plugins(P.FILTER)] == [name for name in UPSTREAM_FILTERS if built(name)]
    assert [plugin.name for plugin in profile.plugins(P.QUEUE_SORT)] == ["PrioritySort"]
    assert [plugin.name for plugin in profile.plugins(P.BIND)] == ["DefaultBinder"]
    gates = ["SchedulingGates", "DynamicResources", "DefaultPreemption"]
    assert [plugin.name for plugin in profile.plugins(P.PRE_ENQUEUE)] == [name for name in gates if built(name)]
    assert not profile.plugins(P.PERMIT)


def test_defaults_that_are_not_implemented_are_left_out_with_a_warning() -> None:
    configuration = load({})
    left_out = configuration.profiles[0].left_out
    assert left_out == tuple(plugin.name for plugin in default_plugins() if not plugin.implemented)
    assert "NodeResourcesFit" not in left_out
    assert [warning.severity for warning in configuration.warnings] == ["warning"] * bool(left_out)
    assert all(name in configuration.warnings[0].message for name in left_out)
    quiet = load({"multiPoint": {"disabled": names(*left_out)}})
    assert not quiet.warnings
    assert not quiet.profiles[0].left_out


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        pytest.param(
            {"score": {"enabled": names("ImageLocality")}},
            [("ImageLocality", 1), *DEFAULT_SCORES[:-1]],
            id="named goes first",
        ),
        pytest.param(
            {"score": {"enabled": names("NodeAffinity")}},
            [("NodeAffinity", 1), *(score for score in DEFAULT_SCORES if score[0] != "NodeAffinity")],
            id="re-enabled without weight gets 1 and not its default",
        ),
        pytest.param(
            {"score": {"enabled": names(("TargetLoadPacking", 7))}},
            [*DEFAULT_SCORES, ("TargetLoadPacking", 7)],
            id="new one goes last",
        ),
        pytest.param(
            {"score": {"enabled": names("TargetLoadPacking"), "disabled": names("*")}},
            [("TargetLoadPacking", 1)],
            id="all others off",
        ),
        pytest.param(
            {"score": {"disabled": names("NodeAffinity", "ImageLocality")}},
            without("NodeAffinity", "ImageLocality"),
            id="some off",
        ),
        pytest.param(
            {"multiPoint": {"enabled": names(("NodeResourcesFit", 9))}},
            [*DEFAULT_SCORES[:2], ("NodeResourcesFit", 9), *DEFAULT_SCORES[3:]],
            id="multiPoint replaces in place",
        ),
        pytest.param(
            {"multiPoint": {"enabled": names(("NodeResourcesFit", 9)), "disabled": names("NodeResourcesFit")}},
            [*(score for score in DEFAULT_SCORES if score[0] != "NodeResourcesFit"), ("NodeResourcesFit", 9)],
            id="off and on again moves to the end",
        ),
        pytest.param(
            {
                "multiPoint": {
                    "enabled": names("PrioritySort", "DefaultBinder", ("TargetLoadPacking", 4)),
                    "disabled": names("*"),
                },
                "score": {"enabled": names(("ImageLocality", 2))},
            },
            [("TargetLoadPacking", 4), ("ImageLocality", 2)],
            id="multiPoint emptied",
        ),
        pytest.param(
            {
                "multiPoint": {"enabled": names(("TargetLoadPacking", 4))},
                "score": {"enabled": names(("TargetLoadPacking", 6))},
            },
            [("TargetLoadPacking", 6), *DEFAULT_SCORES],
            id="the point's weight wins",
        ),
        pytest.param(
            {"score": {"enabled": names(("ImageLocality", 0))}},
            [("ImageLocality", 1), *DEFAULT_SCORES[:-1]],
            id="weight 0 is 1",
        ),
    ],
)
def test_expansion_follows_upstream(plugins: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    assert effective(plugins, P.SCORE) == expected


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ({"filter": {"enabled": names("Nope")}}, 'profiles[0].plugins.filter.enabled[0].name: FilterPlugin "Nope" does not exist'),
        ({"multiPoint": {"enabled": names("Nope")}}, 'profiles[0].plugins.multiPoint.enabled[0].name: MultiPoint plugin "Nope" does not exist'),
        ({"score": {"enabled": names("NodeName")}}, 'profiles[0].plugins.score.enabled[0].name: plugin "NodeName" does not extend ScorePlugin plugin'),
        ({"score": {"enabled": names("ImageLocality", "ImageLocality")}}, 'profiles[0].plugins.score.enabled[1]: plugin "ImageLocality" already registered as "ScorePlugin"'),
        ({"filter": {"enabled": names("EBSLimits")}}, 'profiles[0].plugins.filter.enabled[0].name: Invalid value: "EBSLimits": was invalid in version "v1"'),
        ({"score": {"enabled": names(("ImageLocality", -1))}}, "profiles[0].plugins.score.enabled[0].weight: total score of Score plugins could overflow"),
        ({"score": {"enabled": names(("ImageLocality", 2**62))}}, "profiles[0].plugins.score.enabled[0].weight: total score of Score plugins could overflow"),
        ({"queueSort": {"disabled": names("*")}}, 'profiles[0].plugins.queueSort: only one queue sort plugin required for profile with scheduler name "mine", but got 0'),
        ({"bind": {"disabled": names("*")}}, 'profiles[0].plugins.bind: at least one bind plugin is needed for profile with scheduler name "mine"'),
        ({"multiPoint": {"enabled": names("SecondarySchedulerOptions")}}, 'profiles[0].plugins.multiPoint.enabled[0].name: MultiPoint plugin "SecondarySchedulerOptions" does not exist'),
    ],
    ids=["unknown", "unknown in multiPoint", "wrong point", "twice", "removed", "negative", "overflow", "no sort", "no bind", "options"],
)  # fmt: skip
def test_plugin_sets_that_cannot_work_are_refused(plugins: dict[str, Any], expected: str) -> None:
    assert expected in problems(plugins)


def test_a_plugin_that_is_known_and_not_built_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def unbuilt(name: str) -> PluginDescriptor | None:
        descriptor = lookup(name)
        return replace(descriptor, implemented=False) if descriptor is not None and name == "PodState" else descriptor

    monkeypatch.setattr(flavours, "lookup", unbuilt)
    place = "profiles[0].plugins.score.enabled[0].name"
    expected = f'{place}: plugin "PodState" is not implemented by this scheduler yet'
    assert expected in problems({"score": {"enabled": names("PodState")}})


@pytest.mark.parametrize("name", ["PodGroupPodsCount", "TopologyPlacementGenerator"])
def test_a_plugin_of_upstreams_pod_group_topology_is_refused_and_gang_scheduling_named(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load({"multiPoint": {"enabled": names(name)}})
    (problem,) = caught.value.problems
    assert problem.message == f'MultiPoint plugin "{name}" does not exist'
    assert "topology of PodGroups of scheduling.k8s.io, which GangScheduling follows by itself" in problem.hint


def test_disabling_an_unknown_plugin_warns_and_suggests_the_closest_name() -> None:
    warnings = load({"score": {"disabled": names("ImageLocallity")}}).warnings
    assert warnings[0].message == 'disables "ImageLocallity", which does not exist: it has no effect'
    assert warnings[0].hint == 'did you mean "ImageLocality"?'


def test_queue_sort_must_be_the_same_in_all_profiles() -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: a\n"
        "- schedulerName: b\n  plugins: {queueSort: {disabled: [{name: PrioritySort}]}}\n"
    )
    with pytest.raises(ConfigurationError, match=r"profiles\[1\]\.plugins\.queueSort: has to match for all profiles"):
        load_configuration(text, source="f")


def test_args_get_defaults_for_plugins_that_run_and_are_dropped_for_others() -> None:
    off = {"disabled": names("PodTopologySpread")}
    profile = load({"multiPoint": off, "score": {"disabled": names("*"), "enabled": names("TargetLoadPacking")}}, [
        {"name": "TargetLoadPacking", "args": {"watcherAddress": "http://w", "targetUtilization": 60}},
        {"name": "PodTopologySpread", "args": {"defaultingType": "List"}},
    ]).profiles[0]  # fmt: skip
    args = profile.args("TargetLoadPacking")
    assert isinstance(args, TargetLoadPackingArgs)
    assert args.target_utilization == 60
    assert profile.args("NodeResourcesFit").strategy.type == "LeastAllocated"
    assert profile.args("PodTopologySpread") is None
    assert profile.args("NodeName") is None


def test_our_options_are_separate_from_the_plugins() -> None:
    assert load({}).profiles[0].options.compatibility == "safe"
    options = [
        {"name": "SecondarySchedulerOptions", "args": {"compatibility": "upstream", "load": {"maxAgeSeconds": 60}}}
    ]
    profile = load({}, options).profiles[0]
    assert profile.options.compatibility == "upstream"
    assert profile.options.load.max_age_seconds == 60
    assert "SecondarySchedulerOptions" not in profile.enabled


def test_the_summary_shows_weights_and_masks_secrets() -> None:
    provider = {"type": "Prometheus", "address": "https://p", "token": "very-secret"}
    config = [{"name": "TargetLoadPacking", "args": {"metricProvider": provider}}]
    plugins = {"score": {"enabled": names(("TargetLoadPacking", 3)), "disabled": names("*")}}
    configuration = load(plugins, config, allow_token_in_config_map=True)
    summary = configuration.profiles[0].summary()
    assert summary["schedulerName"] == "mine"
    assert summary["score"] == [{"name": "TargetLoadPacking", "weight": 3}]
    assert summary["pluginConfig"]["TargetLoadPacking"]["metricProvider"]["token"] == "[secret]"
    assert "very-secret" not in f"{summary}{configuration.profiles}{configuration.model.profiles[0].plugins}"


def test_the_percentage_of_placements_is_forbidden_as_upstream_forbids_it_without_its_gate() -> None:
    entry = {"schedulerName": "mine", "percentageOfPlacementsToScore": 50}
    data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfPlacementsToScore": 0,
        "profiles": [entry],
    }
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(msgspec.json.encode(data).decode(), source="f", cluster_minor=38)
    forbidden = (
        "Forbidden: percentageOfPlacementsToScore requires TopologyAwareWorkloadScheduling feature gate to be enabled"
    )
    assert [(problem.path, problem.message) for problem in caught.value.problems] == [
        ("percentageOfPlacementsToScore", forbidden),
        ("profiles[0].percentageOfPlacementsToScore", forbidden),
    ]


def test_an_empty_set_of_placement_feasible_is_accepted() -> None:
    assert load({"placementFeasible": {}}, cluster_minor=38).profiles[0].kubernetes.name == "1.38"
    assert problems({"placementFeasible": {"enabled": names("GangScheduling")}}, cluster_minor=38) == [
        'profiles[0].plugins.placementFeasible.enabled[0].name: plugin "GangScheduling" cannot be enabled: '
        "placementFeasible is not followed"
    ]
