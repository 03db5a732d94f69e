# ruff: noqa: E501 -- tables whose rows are whole messages, one to a line
"""Decoding, defaults and refusals of KubeSchedulerConfiguration v1. Plugin sets and args have files of their own."""

import copy
import json

import pytest
from hypothesis import given, settings, strategies as st

from scheduler.config import (
    Configuration,
    ConfigurationError,
    configuration_hash,
    default_configuration,
    load_configuration,
    render,
)
from tests.support.selection import tries

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PROFILE = "profiles:\n- schedulerName: mine\n"


def load(text: str, **options: object) -> Configuration:
    return load_configuration(text, source="f.yaml", **options)


def problems(text: str, **options: object) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(text, **options)
    assert str(caught.value).count("\n") == len(caught.value.problems) - 1, "one line per problem"
    return str(caught.value).splitlines()


def test_defaults_are_those_of_1_34() -> None:
    model = load(HEAD + PROFILE).model
    assert model.parallelism == 16
    assert model.pod_initial_backoff_seconds == 1
    assert model.pod_max_backoff_seconds == 10
    assert model.percentage_of_nodes_to_score is None
    assert model.delay_cache_until_active is False
    election = model.leader_election
    assert (election.leader_elect, election.resource_lock) == (True, "leases")
    assert (election.resource_name, election.resource_namespace) == ("kube-scheduler", "kube-system")
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (15.0, 10.0, 2.0)
    assert (model.client_connection.qps, model.client_connection.burst) == (50.0, 100)


def test_every_field_of_v1_is_accepted() -> None:
    text = HEAD + (
        "parallelism: 4\nleaderElection: {leaderElect: true, leaseDuration: 1m30s, renewDeadline: 500ms, retryPeriod: 0.1s,"
        " resourceLock: leases, resourceName: a, resourceNamespace: b}\n"
        "clientConnection: {kubeconfig: /k, acceptContentTypes: '', contentType: application/json, qps: 5000, burst: 10000}\n"
        "enableProfiling: false\nenableContentionProfiling: false\npercentageOfNodesToScore: 100\n"
        "podInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 20\ndelayCacheUntilActive: true\n"
        "profiles:\n- schedulerName: mine\n  percentageOfNodesToScore: 50\n  plugins: {}\n  pluginConfig: []\n"
    )
    configuration = load(text)
    assert configuration.model.leader_election.lease_duration == 90.0
    assert configuration.model.client_connection.qps == 5000.0
    assert configuration.profiles[0].percentage_of_nodes_to_score == 50


def test_null_leaves_a_field_at_its_default() -> None:
    configuration = load(
        HEAD + "parallelism: null\nleaderElection:\nprofiles:\n- schedulerName: mine\n  plugins:\n  pluginConfig: ~\n"
    )
    assert configuration.model.parallelism == 16


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("parallelizm: 3\n", 'f.yaml:3:1: parallelizm: unknown field "parallelizm"; did you mean "parallelism"?'),
        (
            "leaderElection: {LeaderElect: true}\n",
            'f.yaml:3:18: leaderElection.LeaderElect: unknown field "LeaderElect"; did you mean "leaderElect"? '
            "(names are case-sensitive)",
        ),
        ('parallelism: "3"\n', 'f.yaml:3:14: parallelism: must be an integer, not "3"'),
        ("parallelism: 3.0\n", "f.yaml:3:14: parallelism: must be an integer, not 3.0"),
        ("enableProfiling: 1\n", "f.yaml:3:18: enableProfiling: must be true or false, not 1"),
        (
            "parallelism: 1\nparallelism: 2\n",
            'f.yaml:4:1: parallelism: key "parallelism" already set in line 3; keep one of the two',
        ),
        (
            "parallelism: 0\n",
            "f.yaml:3:14: parallelism: Invalid value: 0: should be an integer value greater than zero",
        ),
        (
            "percentageOfNodesToScore: 101\n",
            "f.yaml:3:27: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        ),
        (
            "podInitialBackoffSeconds: 0\n",
            "f.yaml:3:27: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "podInitialBackoffSeconds: 11\n",
            "f.yaml:1:1: podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
        ),
        (
            "clientConnection: {burst: -1}\n",
            "f.yaml:3:27: clientConnection.burst: Invalid value: -1: must be non-negative",
        ),
        (
            "leaderElection: {leaseDuration: 10s}\n",
            "f.yaml:3:33: leaderElection.leaseDuration: LeaseDuration must be greater than RenewDeadline",
        ),
        (
            "leaderElection: {resourceLock: endpoints}\n",
            'f.yaml:3:32: leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
        ),
        (
            "leaderElection: {leaseDuration: 15}\n",
            'f.yaml:3:33: leaderElection.leaseDuration: should be a duration in quotes, such as "15s" or "1m30s"',
        ),
        (
            "extenders: [{urlPrefix: 'x:80', filterVerb: f}]\n",
            'f.yaml:3:25: extenders[0].urlPrefix: Invalid value: "x:80": is not a URL of the form http://host:port/path',
        ),
    ],
    ids=lambda value: value.split(":")[0] if ":" in value else None,
)
def test_a_bad_top_level_field_is_named_with_its_place(body: str, expected: str) -> None:
    assert problems(HEAD + body + PROFILE) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f.yaml:1:1: the file is empty; it starts with apiVersion: kubescheduler.config.k8s.io/v1"),
        ("- a\n", "f.yaml:1:1: the file is not a map; it starts with apiVersion: kubescheduler.config.k8s.io/v1"),
        ("a: [1\n", "f.yaml:2:1: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: not valid YAML: but found another document"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\n",
            "f.yaml:1:1: Object 'Kind' is missing; add kind: KubeSchedulerConfiguration",
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1alpha2\nkind: KubeSchedulerConfiguration\n",
            'f.yaml:1:13: apiVersion: no kind "KubeSchedulerConfiguration" is registered for version '
            '"kubescheduler.config.k8s.io/v1alpha2"; write kubescheduler.config.k8s.io/v1; v1beta3, v1beta2, v1beta1 are '
            "converted",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\n",
            'f.yaml:1:13: apiVersion: no kind "KubeSchedulerConfiguration" is registered for version "v1"; write kubescheduler.config.k8s.io/v1; v1beta3, v1beta2, v1beta1 are converted',
        ),
    ],
    ids=["empty", "list", "not yaml", "two documents", "no kind", "old version", "other kind"],
)
def test_a_file_that_is_something_else_is_refused(text: str, expected: str) -> None:
    assert expected in problems(text)


def test_all_problems_are_reported_at_once_in_the_order_of_the_file() -> None:
    lines = problems(
        HEAD
        + "parallelism: x\nprofiles:\n- schedulerName: ${NAME}\n  plugins:\n    filter: {enabled: [{name: Nope}]}\n"
        + "  pluginConfig:\n  - name: TargetLoadPacking\n    args: {targetUtilization: 400}\n- bogus: 1\n"
    )
    assert [line.split(": ")[0] for line in lines] == [
        "f.yaml:3:14",
        "f.yaml:5:18",
        "f.yaml:7:31",
        "f.yaml:10:31",
        "f.yaml:11:3",
        "f.yaml:11:3",
    ]
    assert lines[1].endswith("unresolved placeholder ${NAME}; write the value itself here")


def test_a_profile_named_like_the_clusters_scheduler_is_refused_unless_allowed() -> None:
    for text in (HEAD, HEAD + "profiles:\n- plugins: {}\n", HEAD + "profiles:\n- schedulerName: default-scheduler\n"):
        assert "competes with the cluster's own" in problems(text)[0]
        configuration = load(text, allow_default_scheduler_name=True)
        assert configuration.scheduler_names == ("default-scheduler",)
        assert any("competes" in warning.message for warning in configuration.warnings)
    assert default_configuration(allow_default_scheduler_name=True).scheduler_names == ("default-scheduler",)


NO_SUBDOMAINS = (
    "$(touch X)`id`;|",
    "MyScheduler",
    "my_scheduler",
    "a b",
    "-a",
    "a-",
    ".a",
    "a..b",
    "\u0661",
    "a\n",
    "a" * 254,
)


@pytest.mark.parametrize("name", NO_SUBDOMAINS)
def test_a_profile_that_is_no_subdomain_is_refused_with_its_place_and_what_to_do(name: str) -> None:
    text = HEAD + f"profiles:\n- schedulerName: {json.dumps(name)}\n"
    (line,) = problems(text, into_cluster=True)
    assert line.startswith('f.yaml:4:18: profiles[0].schedulerName: Invalid value: "')
    assert "must be a DNS-1123 subdomain" in line
    assert line.endswith("rename the profile, and with it spec.schedulerName of the pods that name it")
    assert len(line) < 450
    configuration = load(text)
    assert configuration.scheduler_names == (name,), "who reads what is there already takes it as it is"
    assert ["DNS-1123" in warning.message for warning in configuration.warnings] == [True]


@pytest.mark.parametrize("name", ["a", "my-scheduler", "0.a-b.c", "a" * 253])
def test_subdomains_are_names_of_profiles(name: str) -> None:
    configuration = load(HEAD + f'profiles:\n- schedulerName: "{name}"\n', into_cluster=True)
    assert (configuration.scheduler_names, configuration.warnings) == ((name,), ())


def test_several_profiles_need_distinct_names() -> None:
    assert problems(HEAD + "profiles:\n- schedulerName: a\n- {}\n") == [
        "f.yaml:5:3: profiles[1].schedulerName: is required when there are several profiles"
    ]
    assert problems(HEAD + "profiles:\n- schedulerName: a\n- schedulerName: a\n") == [
        'f.yaml:5:18: profiles[1].schedulerName: Duplicate value: "a"'
    ]


def test_an_unknown_flavour_is_refused() -> None:
    (line,) = problems(HEAD + PROFILE, flavour="scheduler-plugin@0.34")
    assert line == ('f.yaml: flavour "scheduler-plugin@0.34" is not known; did you mean "scheduler-plugins@0.34"?')


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("&a [*a]", "refers to itself"),
        ("[" * 300 + "]" * 300, "nested too deeply"),
        ("[" + ("[" * 150 + "]" * 150 + ",\n ") * 3000 + "]", "nested too deeply"),
        ("9" * 5000, "must be an integer"),
        ("!!python/object:os.system x", "must be an integer"),
    ],
    ids=["cycle", "depth", "a megabyte of depth", "digits", "tag"],
)
def test_hostile_yaml_gives_one_line_and_no_crash(value: str, reason: str) -> None:
    (line,) = problems(f"{HEAD}parallelism: {value}\n{PROFILE}")[:1]
    assert reason in line or "must be an integer" in line
    assert len(line) < 300


def test_aliases_cannot_blow_a_small_file_up() -> None:
    bomb = HEAD + "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for old, new in zip("abcdef", "bcdefg", strict=True):
        bomb += f"{new}: &{new} [" + ", ".join([f"*{old}"] * 10) + "]\n"
    assert "too large when its aliases are expanded" in problems(bomb)[0]


def test_a_file_larger_than_a_config_map_is_refused() -> None:
    assert "a ConfigMap holds at most 1048576" in problems("#" * (1 << 20) + "\n")[0]


def test_merge_keys_and_anchors_work() -> None:
    text = (
        HEAD + "profiles:\n- &one\n  schedulerName: a\n  percentageOfNodesToScore: 30\n- <<: *one\n  schedulerName: b\n"
    )
    assert [(profile.scheduler_name, profile.percentage_of_nodes_to_score) for profile in load(text).profiles] == [
        ("a", 30),
        ("b", 30),
    ]


def test_the_hash_ignores_only_what_yaml_ignores() -> None:
    original = "a: 1  # comment\nb: [x, 'z']\n"
    same = "b:\n- x\n- z\n\na:   1\n"
    assert configuration_hash(original) == configuration_hash(same)
    assert len(configuration_hash(original)) == 16
    assert int(configuration_hash(original), 16) >= 0
    assert configuration_hash(original) != configuration_hash("a: '1'\nb: [x, z]\n")
    configuration = load(HEAD + PROFILE)
    assert configuration.hash == configuration_hash(HEAD + PROFILE)


def test_render_is_stable_and_quotes_ambiguous_text() -> None:
    data = {
        "kind": "K",
        "apiVersion": "g/v1",
        "z": {"b": "yes", "a": "012"},
        "list": [{"y": 1, "name": "n"}, [1], {}],
        "e": "",
    }
    text = render(data)
    assert text == (
        'apiVersion: g/v1\nkind: K\ne: ""\nlist:\n- name: "n"\n  "y": 1\n- [1]\n- {}\nz:\n  a: "012"\n  b: "yes"\n'
    )
    assert render(dict(reversed(data.items()))) == text


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
)
trees = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(max_examples=tries(150), deadline=None)
@given(trees)
def test_rendered_text_reads_back_as_the_same_data(tree: dict[str, object]) -> None:
    from scheduler.config import read_document

    text = render(tree)
    document = read_document(text, "r")
    assert document.data == (tree or {})
    assert render(document.data) == text


# --- data instead of text -------------------------------------------------------------------------------------------

DATA = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "mine", "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}}}],
}


def test_data_means_the_same_as_the_text_that_is_rendered_from_it() -> None:
    of_data = load_configuration(DATA, source="settings")
    of_text = load_configuration(render(DATA), source="settings")
    assert (of_data.hash, of_data.profiles, of_data.data) == (of_text.hash, of_text.profiles, of_text.data)


def test_a_problem_in_data_has_a_location_and_no_line() -> None:
    data = {**DATA, "profiles": [{"schedulerName": "mine", "plugins": {"score": {"enabled": [{"name": "${NAME}"}]}}}]}
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(data, source="settings")
    (problem,) = refused.value.problems
    assert problem.loc == ("profiles", 0, "plugins", "score", "enabled", 0, "name")
    assert (problem.line, problem.column) == (0, 0)
    assert str(problem).startswith(
        "settings: profiles[0].plugins.score.enabled[0].name: unresolved placeholder ${NAME}"
    )


def test_converting_leaves_the_given_data_as_it_was() -> None:
    data = {**DATA, "apiVersion": "kubescheduler.config.k8s.io/v1beta2"}
    before = copy.deepcopy(data)
    configuration = load_configuration(data, source="settings")
    assert configuration.version == "v1beta2"
    assert configuration.model.api_version == "kubescheduler.config.k8s.io/v1"
    assert data == configuration.data == before
