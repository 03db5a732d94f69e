# ruff: noqa: E501 -- tables whose rows are whole messages, one to a line
"""Configurations of public reports: what is said about them. `test_releases` has those for older images."""

from pathlib import Path

import pytest

from scheduler.catalog import ExtensionPoint
from scheduler.config import Configuration, ConfigurationError, convert_text, load_configuration
from scheduler.config.flavours import OURS, Flavour, flavour_named
from scheduler.config.problems import Problem

CASES = Path(__file__).parents[3] / "data/cases"
HEAD = "apiVersion: kubescheduler.config.k8s.io/{}\nkind: KubeSchedulerConfiguration\n"
PROFILE = "profiles:\n- schedulerName: one\n"


def load(text: str) -> Configuration:
    return load_configuration(text, source="f", external_load=True)


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        load(text)
    return [f"{problem.path}: {problem.message}; {problem.hint}".rstrip("; ") for problem in refused.value.problems]


def fields(text: str) -> list[str]:
    return [line.partition(":")[0] for line in problems(text)]


def case(name: str) -> str:
    return (CASES / name / "config.yaml").read_text()


def test_r11_an_unknown_field_does_not_hide_a_wrong_value_beside_it() -> None:
    assert fields(case("r11")) == [
        "profiles[0].pluginConfig[0].args.namespaces",
        "profiles[0].pluginConfig[0].args.scoringStrategy.type",
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "colour: blue\nparallelism: 0\npodInitialBackoffSeconds: -1\nleaderElection: {leaseDuration: 20s, renewDeadline: x}\n" + PROFILE,
            ["colour", "parallelism", "podInitialBackoffSeconds", "leaderElection.renewDeadline"],
        ),
        (
            PROFILE + "  plugins: {score: {enabled: [{nam: x}, {name: Nope}, {name: NodeName}]}}\n",
            ["profiles[0].plugins.score.enabled[0].nam", "profiles[0].plugins.score.enabled[0].name", "profiles[0].plugins.score.enabled[1].name", "profiles[0].plugins.score.enabled[2].name"],
        ),
        (
            PROFILE + "  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: Nope, resources: [{name: cpu, weight: 200}, {weight: 3}, {name: memory, weight: x}]}}\n",
            ["profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight", "profiles[0].pluginConfig[0].args.scoringStrategy.resources[1].name", "profiles[0].pluginConfig[0].args.scoringStrategy.resources[2].weight", "profiles[0].pluginConfig[0].args.scoringStrategy.type"],
        ),
        (
            "percentageOfNodesToScore: many\nextenders:\n- {prioritizeVerb: p, weight: 0}\n- {urlPrefix: 'http://x', managedResources: [{name: cpu}], weigth: 3}\n" + PROFILE,
            ["percentageOfNodesToScore", "extenders[0].urlPrefix", "extenders[0].weight", "extenders[1].managedResources[0].name", "extenders[1].weigth"],
        ),
        (
            "parallelism: -1\nprofiles:\n- schedulerName: a\n- schedulerName: a\n  percentageOfNodesToScore: x\n",
            ["parallelism", "profiles[1].schedulerName", "profiles[1].percentageOfNodesToScore"],
        ),
        (
            "profiles:\n- schedulerName: a\n  colour: x\n- schedulerName: b\n  plugins: {queueSort: {enabled: [{name: QOSSort}], disabled: [{name: '*'}]}}\n",
            ["profiles[0].colour", "profiles[1].plugins.queueSort"],
        ),
    ],
    ids=["top", "plugin set", "args", "extenders", "profiles", "queue"],
)  # fmt: skip
def test_all_problems_show_at_once_whatever_kind_they_are(body: str, expected: list[str]) -> None:
    assert sorted(fields(HEAD.format("v1") + body)) == sorted(expected)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("profiles:\n- schedulerName: 3\n", ["profiles[0].schedulerName"]),
        ("podMaxBackoffSeconds: x\npodInitialBackoffSeconds: 30\n" + PROFILE, ["podMaxBackoffSeconds"]),
        (PROFILE + "  plugins: {queueSort: {enable: [{name: QOSSort}], disabled: [{name: '*'}]}}\n", ["profiles[0].plugins.queueSort.enable"]),
        (PROFILE + "  pluginConfig: [{name: PodTopologySpread, args: {defaultingTyp: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}}]\n", ["profiles[0].pluginConfig[0].args.defaultingTyp"]),
        (PROFILE + "  pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}}]\n", ["profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew"]),
    ],
    ids=["name", "backoff", "set", "type", "number"],
)  # fmt: skip
def test_what_follows_from_a_problem_is_not_reported_as_another(body: str, expected: list[str]) -> None:
    assert fields(HEAD.format("v1") + body) == expected


def test_an_error_elsewhere_does_not_hide_the_version_that_a_profile_names() -> None:
    text = HEAD.format("v1") + PROFILE + (
        "  plugins: {colour: {}}\n  pluginConfig:\n"
        "  - {name: SecondarySchedulerOptions, args: {kubernetesVersion: '1.37'}}\n"
        "  - {name: DynamicResources, args: {bindingTimeout: 5s}}\n"
        "  - {name: VolumeBinding, args: {shape: [{utilization: 0, score: 1}]}}\n"
    )  # fmt: skip
    assert fields(text) == ["profiles[0].plugins.colour"]
    older = text.replace("  plugins: {colour: {}}\n", "").replace("1.37", "1.34")
    assert [line.rpartition("; ")[2] for line in problems(older)] == [
        'remove it, or set kubernetesVersion: "1.36" or later in the args of SecondarySchedulerOptions',
        'remove it, or set kubernetesVersion: "1.37" or later in the args of SecondarySchedulerOptions',
    ]


@pytest.mark.parametrize("field", ["placementGenerate", "placementScore", "podGroupPostFilter", "placementFeasible"])
def test_empty_sets_for_pod_groups_are_accepted_and_others_refused(field: str) -> None:
    text = f"{HEAD.format('v1')}{PROFILE}  plugins: {{{field}: {{}}}}\n"
    assert load(text).scheduler_names == ("one",)
    (line,) = problems(text.replace("{}}", "{enabled: [{name: GangScheduling}]}}"))
    assert line.startswith(f'profiles[0].plugins.{field}.enabled[0].name: plugin "GangScheduling" cannot be enabled')


def test_mp_beta2_multi_point_of_v1beta2_is_valid_and_has_no_effect_as_upstream() -> None:
    text = case("mp-beta2")
    configuration = load(text)
    assert any("decodes multiPoint of v1beta2 and ignores it" in each.message for each in configuration.warnings)
    assert "NodeResourcesAllocatable" not in configuration.profiles[0].enabled
    assert "multiPoint" not in convert_text(text, source="f")[0]


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ("{multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: '*'}]}}", "PrioritySort"),
        ("{multiPoint: {disabled: [{name: NodeResourcesFit}]}}", "NodeResourcesFit"),
        ("{multiPoint: {enabled: [{name: NodeResourcesFit, weight: 9}]}}", "NodeResourcesFit"),
    ],
)  # fmt: skip
def test_the_defaults_of_v1beta2_run_whatever_its_multi_point_says(plugins: str, expected: str) -> None:
    profile = load(f"{HEAD.format('v1beta2')}{PROFILE}  plugins: {plugins}\n").profiles[0]
    assert expected in profile.enabled
    weights = {plugin.name: plugin.weight for plugin in profile.plugins(ExtensionPoint.SCORE)}
    assert weights["NodeResourcesFit"] == 1


def test_multi_point_of_v1beta3_has_an_effect() -> None:
    text = case("mp-beta2").replace("v1beta2", "v1beta3")
    assert "NodeResourcesAllocatable" in load(text).profiles[0].enabled


def test_r08_a_disabled_filter_that_keeps_nodes_safe_is_warned_of() -> None:
    repaired = case("r08").replace("name: BalancedAllocation", "name: NodeResourcesBalancedAllocation")
    (warning,) = load(repaired).warnings
    assert warning.path == "profiles[0].plugins.multiPoint.disabled[0].name"
    assert warning.line == repaired.splitlines().index("          - name: NodeResourcesFit") + 1
    assert (
        warning.message
        == "no filter NodeResourcesFit runs: without NodeResourcesFit nodes get more pods than they have room for, which the kubelet rejects"
    )


@pytest.mark.parametrize(
    ("plugins", "place", "names"),
    [
        ("{filter: {disabled: [{name: TaintToleration}]}}", "filter.disabled[0].name", ["TaintToleration"]),
        ("{multiPoint: {disabled: [{name: NodeUnschedulable}, {name: NodePorts}]}}", "multiPoint.disabled[0].name", ["NodeUnschedulable"]),
        ("{filter: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}, {name: NodeAffinity}, {name: NodePorts}]}}", "filter.disabled[0].name", ["NodeUnschedulable", "TaintToleration"]),
        ("{multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}", "multiPoint.disabled[0].name", ["NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"]),
    ],
)  # fmt: skip
def test_each_disabled_guard_is_named_where_it_is_disabled(plugins: str, place: str, names: list[str]) -> None:
    first = load(f"{HEAD.format('v1')}{PROFILE}  plugins: {plugins}\n").warnings[0]
    assert first.path == f"profiles[0].plugins.{place}"
    assert first.message.startswith(f"no filter {' or '.join(names)} runs: ")


@pytest.mark.parametrize(
    "plugins",
    [
        "{score: {disabled: [{name: NodeResourcesFit}, {name: TaintToleration}]}}",
        "{multiPoint: {disabled: [{name: NodeResourcesFit}]}, filter: {enabled: [{name: NodeResourcesFit}]}}",
        "{filter: {disabled: [{name: ImageLocality}]}}",
    ],
)
def test_nothing_is_said_where_the_guards_run(plugins: str) -> None:
    assert not [
        each
        for each in load(f"{HEAD.format('v1')}{PROFILE}  plugins: {plugins}\n").warnings
        if "no filter" in each.message
    ]


_GANGS_EVERYWHERE = "{multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}}"


def _of_gangs(plugins: str, flavour: Flavour = OURS) -> list[Problem]:
    text = f"{HEAD.format('v1')}{PROFILE}  plugins: {plugins}\n"
    loaded = load_configuration(text, source="f", external_load=True, flavour=flavour)
    return [each for each in loaded.warnings if "Coscheduling" in each.message]


def test_coscheduling_at_permit_alone_is_warned_of_with_the_points_that_are_missing() -> None:
    (warning,) = _of_gangs("{permit: {enabled: [{name: Coscheduling}]}}")
    assert warning.path == "profiles[0].plugins.permit.enabled[0].name"
    missing = "queueSort, preFilter, postFilter, reserve"
    assert warning.message == (f"Coscheduling does not run at {missing}: other pods come between the members of a gang")
    assert "enable it under multiPoint, and disable PrioritySort there" in warning.hint


def test_without_permit_the_warning_begins_with_what_is_worst() -> None:
    (warning,) = _of_gangs("{preFilter: {enabled: [{name: Coscheduling}]}}")
    missing = "permit, queueSort, postFilter, reserve"
    assert warning.message == (
        f"Coscheduling does not run at {missing}: pods run although their PodGroup lacks members"
    )


def test_nothing_is_said_where_coscheduling_runs_everywhere_nowhere_or_in_another_image() -> None:
    assert not _of_gangs(_GANGS_EVERYWHERE)
    assert not _of_gangs("{score: {enabled: [{name: TargetLoadPacking}]}}")
    assert not _of_gangs("{permit: {enabled: [{name: Coscheduling}]}}", flavour_named("scheduler-plugins@0.34"))


def test_r21_constraints_without_their_type_name_the_remedy() -> None:
    first, second = problems(case("r21"))
    assert "add defaultingType: List" in first
    assert "write System" in second


@pytest.mark.parametrize(
    ("args", "remedy"),
    [
        ("{defaultingType: System, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}", "add defaultingType: List"),
        ("{defaultingType: list}", "write System"),
        ("{defaultingType: Lists, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}", "or List with defaultConstraints"),
    ],
)  # fmt: skip
def test_a_wrong_type_of_defaulting_names_the_remedy(args: str, remedy: str) -> None:
    (line,) = problems(f"{HEAD.format('v1')}{PROFILE}  pluginConfig: [{{name: PodTopologySpread, args: {args}}}]\n")
    assert remedy in line


def test_r02_a_plugin_of_somebody_elses_says_which_images_hold_such() -> None:
    (line,) = problems(case("r02"))
    assert line.startswith('profiles[0].plugins.score.enabled[0].name: ScorePlugin "GreenPlugin" does not exist; ')
    assert "an image of your own" in line
    assert "extraPlugins" in line


@pytest.mark.parametrize("name", ["my-plugin", "NodeResourcesLeast", "Example.Com/Filter"])
@pytest.mark.parametrize("point", ["filter", "multiPoint", "permit"])
def test_every_unknown_name_gets_that_hint(name: str, point: str) -> None:
    (line,) = problems(f"{HEAD.format('v1')}{PROFILE}  plugins: {{{point}: {{enabled: [{{name: {name}}}]}}}}\n")
    assert "extraPlugins" in line


@pytest.mark.parametrize("number", [".inf", "-.INF", ".nan", "1e400", "-1e999", "+.inf"])
def test_46_numbers_that_json_does_not_have_are_refused_with_the_line(number: str) -> None:
    text = f"{HEAD.format('v1')}clientConnection: {{qps: {number}}}\n{PROFILE}"
    with pytest.raises(ConfigurationError) as refused:
        load(text)
    (problem,) = refused.value.problems
    assert (problem.path, problem.line, problem.message) == ("clientConnection.qps", 3, f"unsupported value: {number}")
    assert load(text.replace(number, f'"{number}"').replace("qps", "contentType")), "as text it is text"


def test_46_the_reported_configurations_are_refused() -> None:
    for name, count in (("config-nan", 2), ("config-qps-inf", 1)):
        text = (CASES / f"46/{name}.yaml").read_text()
        with pytest.raises(ConfigurationError) as refused:
            load(text)
        assert [problem.message.partition(":")[0] for problem in refused.value.problems] == [
            "unsupported value"
        ] * count


def test_46_data_with_such_a_number_is_refused_too() -> None:
    data = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    with pytest.raises(ConfigurationError, match=r"clientConnection\.qps: unsupported value: inf"):
        load_configuration({**data, "clientConnection": {"qps": float("inf")}}, source="f")
