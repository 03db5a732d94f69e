# ruff: noqa: E501 - a case per line reads better than one per four
"""One profile, several, or a file: all give the same validated configuration, with problems reported at their place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.settings import CheckedConfiguration
from scheduler.catalog import ExtensionPoint
from scheduler.config import ConfigurationError, Problem, configuration_hash, flavour_names
from stacks.checking import check

OURS = "localhost/secondary-scheduler/kube-scheduler:0.1.0"
GO = "registry.k8s.io/scheduler-plugins/kube-scheduler:v{}"
OUR_OPERATOR = "localhost/secondary-scheduler/operator:0.1.0"
CUSTOM = "registry.example.com/my/scheduler:1"
CASES = Path(__file__).parents[2] / "data/cases"
LOAD_AWARE = {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 5}]}}
PROMETHEUS = {"type": "Prometheus", "address": "https://prometheus.example:9090"}
BY_LOAD = {"plugins": LOAD_AWARE, "metricProvider": PROMETHEUS}
FILE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
# the only one
- schedulerName: mine
  plugins:
    score:
      enabled:
      - name: NodeAffinity
        weight: 7
"""


class Stack:
    """A stack's settings in a folder of its own."""

    def __init__(self, directory: Path, kubeconfig: Path) -> None:
        self.directory = directory
        self.environment = {"KUBECONFIG": str(kubeconfig)}

    def check(self, encrypted: set[str] | None = None, /, **changes: Any) -> CheckedConfiguration:
        document: dict[str, Any] = {
            "cluster": {"clusterIdentifier": "test"},
            "schedulerImage": OURS,
            "operatorImage": OUR_OPERATOR,
            **changes,
        }
        values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in document.items()}
        return check(values, encrypted or set(), self.environment, self.directory)[1]

    def refused(self, **changes: Any) -> list[str]:
        with pytest.raises(ConfigurationError) as caught:
            self.check(**changes)
        return [_line(problem) for problem in caught.value.problems]

    def warned(self, **changes: Any) -> list[str]:
        return [_line(warning) for warning in self.check(**changes).warnings]


def _line(problem: Problem) -> str:
    return str(problem if problem.source else replace(problem, source="Pulumi.test.yaml"))


@pytest.fixture
def stack(tmp_path: Path, kubeconfig: Path) -> Stack:
    directory = tmp_path / "stacks"
    directory.mkdir()
    return Stack(directory, kubeconfig)


# --- a file ---------------------------------------------------------------------------------------------------------


def test_a_file_and_settings_that_say_the_same_give_the_same_config_map(stack: Stack) -> None:
    (stack.directory / "kube-scheduler.yaml").write_text(FILE)
    of_file = stack.check(configurationFile="kube-scheduler.yaml")
    plugins = {"score": {"enabled": [{"name": "NodeAffinity", "weight": 7}]}}
    of_settings = stack.check(schedulerName="mine", plugins=plugins)
    assert of_file.content == of_settings.content
    assert of_file.configuration.hash == of_settings.configuration.hash == configuration_hash(FILE)
    assert of_file.outputs == of_settings.outputs


def test_comments_of_a_file_do_not_make_another_config_map(stack: Stack) -> None:
    file = stack.directory / "kube-scheduler.yaml"
    file.write_text(FILE)
    before = stack.check(configurationFile="kube-scheduler.yaml").content
    file.write_text(FILE.replace("# the only one", "# there is no other"))
    assert stack.check(configurationFile="kube-scheduler.yaml").content == before


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (FILE.replace("weight: 7", "wieght: 7"), 10, ['unknown field "wieght"', "profiles[0].plugins.score.enabled[0]"]),
        (FILE.replace("NodeAffinity", "NodeAfinity"), 9, ['"NodeAfinity" does not exist', 'did you mean "NodeAffinity"?']),
        (FILE.replace("/v1\n", "/v2\n"), 1, ["apiVersion", "v1"]),
        (FILE.replace("mine", "default-scheduler"), 5, ["profiles[0].schedulerName", "competes", "allowDefaultSchedulerName"]),
        (FILE.replace("mine", "$(touch X)`id`;|"), 5, ["profiles[0].schedulerName", "DNS-1123 subdomain", "rename the profile"]),
        (FILE.replace("    score:", "   score:\n    x"), 0, ["not valid YAML"]),
        (FILE + "- schedulerName: mine\n", 11, ['Duplicate value: "mine"']),
        ("", 1, ["the file is empty"]),
        ("[]", 1, ["this is a list, no configuration"]),
    ],
)  # fmt: skip
def test_a_problem_in_the_file_is_reported_with_its_line_and_field(
    stack: Stack, text: str, line: int, words: list[str]
) -> None:
    (stack.directory / "kube-scheduler.yaml").write_text(text)
    messages = stack.refused(configurationFile="kube-scheduler.yaml")
    assert len(messages) == 1
    start = f"stacks/kube-scheduler.yaml:{line}:" if line else "stacks/kube-scheduler.yaml:"
    assert messages[0].startswith(start)
    for word in words:
        assert word in messages[0]


def test_a_token_in_the_file_is_refused_without_being_shown(stack: Stack) -> None:
    source = "{type: Prometheus, address: 'https://p', token: canary-31415926}"
    config = f"  pluginConfig:\n  - name: TargetLoadPacking\n    args: {{metricProvider: {source}}}\n"
    (stack.directory / "f.yaml").write_text(FILE + config)
    (message,) = stack.refused(configurationFile="f.yaml")
    assert message.startswith("stacks/f.yaml:13:76: profiles[0].pluginConfig[0].args.metricProvider.token: ")
    assert "metricProvider.credentials" in message
    assert "canary" not in message


def test_a_secret_in_args_that_nobody_knows_is_refused_without_being_shown(stack: Stack) -> None:
    config = "  pluginConfig:\n  - name: Mine\n    args: {deep: {apiToken: canary-31415926, tokenFile: /run/token}}\n"
    (stack.directory / "f.yaml").write_text(FILE + config)
    plugin = {"name": "Mine", "points": ["score"]}
    (message,) = stack.refused(configurationFile="f.yaml", schedulerImage=CUSTOM, extraPlugins=[plugin])
    assert "profiles[0].pluginConfig[0].args.deep.apiToken: must not hold apiToken" in message
    assert "canary" not in message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schedulerName", "other"),
        ("plugins", LOAD_AWARE),
        ("profiles", [{"schedulerName": "x"}]),
        ("compatibility", "upstream"),
        ("metricProvider", PROMETHEUS),
    ],
)
def test_settings_that_the_file_replaces_are_refused(stack: Stack, key: str, value: Any) -> None:
    (stack.directory / "f.yaml").write_text(FILE)
    (message,) = stack.refused(configurationFile="f.yaml", **{key: value})
    assert message.startswith(f"Pulumi.test.yaml: {key}: ")
    assert "already set in f.yaml" in message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere.yaml", ['cannot read "stacks/nowhere.yaml": No such file', "relative to the folder"]),
        ("/etc/passwd", ["must be a path relative to the folder"]),
        (".", ["cannot read", "Is a directory"]),
    ],
)
def test_a_file_that_cannot_be_read_is_reported_by_its_key(stack: Stack, name: str, words: list[str]) -> None:
    (message,) = stack.refused(configurationFile=name)
    assert message.startswith("Pulumi.test.yaml: configurationFile: ")
    for word in words:
        assert word in message


def test_credentials_go_with_a_file_that_reads_them_and_are_warned_of_where_it_does_not(stack: Stack) -> None:
    credentials = {"credentials": {"existingSecret": {"name": "metrics"}}}
    (stack.directory / "f.yaml").write_text(FILE)
    (message,) = stack.warned(configurationFile="f.yaml", metricProvider=credentials)
    assert "no profile reads it" in message
    path = "/var/run/secrets/secondary-scheduler/metrics/token"
    options = f"  pluginConfig:\n  - name: SecondarySchedulerOptions\n    args: {{load: {{tokenFile: {path}}}}}\n"
    (stack.directory / "f.yaml").write_text(FILE + options)
    assert stack.warned(configurationFile="f.yaml", metricProvider=credentials) == []
    assert stack.refused(metricProvider=credentials, plugins=LOAD_AWARE)[0].startswith(
        "Pulumi.test.yaml: metricProvider.type: missing"
    )


def test_keys_of_leader_election_that_have_no_effect_are_warned_of(stack: Stack) -> None:
    (stack.directory / "f.yaml").write_text(FILE + "leaderElection: {leaderElect: false, resourceName: x}\n")
    (message,) = stack.warned(configurationFile="f.yaml")
    assert "leaderElection.leaderElect, leaderElection.resourceName in f.yaml have no effect" in message
    # The older operators of OpenShift give no such flags: there the file counts.
    old = "quay.io/openshift/secondary-scheduler-operator:v1.5.0"
    assert stack.warned(configurationFile="f.yaml", operatorImage=old) == []


# --- several profiles -----------------------------------------------------------------------------------------------


def test_several_profiles_share_the_metric_source_and_may_have_their_own(stack: Stack) -> None:
    other = {"type": "Prometheus", "address": "https://other.example:9090", "window": "5m"}
    profile = stack.check(
        metricProvider={**PROMETHEUS, "credentials": {"existingSecret": {"name": "metrics"}}},
        profiles=[
            {"schedulerName": "online", "plugins": LOAD_AWARE},
            {"schedulerName": "batch", "plugins": LOAD_AWARE, "metricProvider": other, "compatibility": "upstream"},
            {"schedulerName": "plain"},
        ],
    )
    assert profile.configuration.scheduler_names == ("online", "batch", "plain")
    online, batch, plain = profile.configuration.profiles
    addresses = [profile.args("TargetLoadPacking").metric_provider.address for profile in (online, batch)]  # type: ignore[union-attr]
    assert addresses == ["https://prometheus.example:9090", "https://other.example:9090"]
    assert (online.options.load.window, batch.options.load.window) == ("15m", "5m")
    assert online.options.load.token_file
    assert not batch.options.load.token_file, "a token goes to no other server than the one it was given for"
    assert (online.options.compatibility, batch.options.compatibility) == ("safe", "upstream")
    assert "TargetLoadPacking" not in plain.enabled
    assert [summary["schedulerName"] for summary in profile.summaries] == ["online", "batch", "plain"]
    assert len({summary["configurationHash"] for summary in profile.summaries}) == 1


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}, "profiles[1].schedulerName", ['Duplicate value: "a"']),
        ({"profiles": [{"plugins": {}}]}, "profiles[0].schedulerName", ["missing"]),
        ({"profiles": [{"schedulerName": "A"}]}, "profiles[0].schedulerName", ["lower case"]),
        ({"profiles": [{"schedulerName": "default-scheduler"}]}, "profiles[0].schedulerName", ["allowDefaultSchedulerName"]),
        ({"profiles": [{"schedulerName": "a", "plugin": {}}]}, "profiles[0].plugin", ['did you mean "plugins"?']),
        ({"profiles": {"schedulerName": "a"}}, "profiles", ["must be a list, not a map"]),
        ({"profiles": [{"schedulerName": "a"}], "plugins": LOAD_AWARE, "metricProvider": PROMETHEUS}, "plugins", ["move them there"]),
        ({"profiles": [{"schedulerName": "a"}], "schedulerName": "b"}, "schedulerName", ["each entry of profiles"]),
        ({"profiles": [{"schedulerName": "a", "plugins": LOAD_AWARE}]}, "metricProvider", ["TargetLoadPacking scores by load"]),
        (
            {"profiles": [{"schedulerName": "a", "plugins": {"score": {"enabled": [{"name": "NodeName"}]}}}]},
            "profiles[0].plugins.score.enabled[0].name", ["ScorePlugin"],
        ),
        (
            {"profiles": [{"schedulerName": "a", "plugins": {"score": {"enabled": [{"name": "NodeAffinity", "args": {"x": 1}}]}}}]},
            "profiles[0].plugins.score.enabled[0].args.x", ['unknown field "x"'],
        ),
        (
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": {"score": {"disabled": ["NodeResourceFit"]}}}]},
            "profiles[1].plugins.score.disabled[0]", ["NodeResourceFit", "NodeResourcesFit"],
        ),
        (
            {"profiles": [{"schedulerName": "a", "metricProvider": {**PROMETHEUS, "window": "soon"}}]},
            "profiles[0].metricProvider.window", ["soon"],
        ),
        (
            {"profiles": [{"schedulerName": "a", "metricProvider": {**PROMETHEUS, "credentials": {"existingSecret": {"name": "s"}}}}]},
            "profiles[0].metricProvider.credentials", ["only be set in the stack's metricProvider"],
        ),
        (
            {"profiles": [{"schedulerName": "a", "metricProvider": {**PROMETHEUS, "window": "5m"}}], "metricProvider": PROMETHEUS},
            None, [],
        ),
        (
            {
                "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "metricProvider": {**PROMETHEUS, "window": "5m"}}],
                "metricProvider": PROMETHEUS,
            },
            "profiles[1].metricProvider", ["reads the same source with other settings than metricProvider"],
        ),
        (
            {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": {"queueSort": {"disabled": ["PrioritySort"], "enabled": [{"name": "Coscheduling"}]}}}]},
            "profiles[1].plugins.queueSort", ["has to match for all profiles"],
        ),
    ],
)  # fmt: skip
def test_a_problem_in_one_of_several_profiles_is_reported_there(
    stack: Stack, changes: dict[str, Any], path: str | None, words: list[str]
) -> None:
    if path is None:
        stack.check(**changes)
        return
    (message,) = stack.refused(**changes)
    assert message.startswith(f"Pulumi.test.yaml: {path}: ")
    for word in words:
        assert word in message


# --- flavours -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in flavour_names() if name.startswith("scheduler-plugins@")])
def test_every_release_of_scheduler_plugins_gets_a_version_that_it_reads(stack: Stack, name: str) -> None:
    image = GO.format(f"{name.partition('@')[2]}.0")
    profile = stack.check(schedulerImage=image, plugins=LOAD_AWARE, metricProvider=PROMETHEUS)
    assert profile.configuration.flavour.name == name
    assert profile.configuration.flavour.reads(profile.configuration.version)
    assert "SecondarySchedulerOptions" not in profile.content
    assert profile.summaries[0]["scorePlugins"]["TargetLoadPacking"] == 5


def test_a_plugin_that_the_release_has_not_is_refused(stack: Stack) -> None:
    plugins = {"score": {"enabled": [{"name": "LowRiskOverCommitment"}]}}
    (message, *_) = stack.refused(schedulerImage=GO.format("0.25.12"), plugins=plugins, metricProvider=PROMETHEUS)
    assert 'LowRiskOverCommitment" does not exist in scheduler-plugins@0.25' in message


@pytest.mark.parametrize(
    ("release", "refused"),
    [("0.29.8", "0.34 and later have it"), ("0.33.5", "0.34 and later have it"), ("0.34.7", ""), ("0.35.4-devel", "")],
)
def test_a_field_of_args_is_judged_by_the_release_of_the_image(stack: Stack, release: str, refused: str) -> None:
    coscheduling = [{"name": "Coscheduling", "args": {"podGroupRejectPercentage": 50}}]
    queue = {"enabled": [{"name": "Coscheduling"}], "disabled": ["*"]}
    plugins = {"multiPoint": {"enabled": coscheduling}, "queueSort": queue}
    (stack.directory / "kube-scheduler.yaml").write_text((CASES / "images/cosched-pgr.yaml").read_text())
    for settings in ({"plugins": plugins}, {"configurationFile": "kube-scheduler.yaml"}):
        if not refused:
            assert stack.check(schedulerImage=GO.format(release), **settings).configuration.scheduler_names
            continue
        (message,) = stack.refused(schedulerImage=GO.format(release), **settings)
        assert 'podGroupRejectPercentage: unknown field "podGroupRejectPercentage"' in message
        assert refused in message


def test_a_file_may_be_the_manifest_that_holds_the_configuration(stack: Stack) -> None:
    inside = "".join(f"    {line}\n" for line in FILE.splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  config.yaml: |\n"
    for text in (f"{head}{inside}", f"kind: Secret\napiVersion: v1\n---\n{FILE}"):
        (stack.directory / "kube-scheduler.yaml").write_text(text)
        assert stack.check(configurationFile="kube-scheduler.yaml").configuration.scheduler_names == ("mine",)
    (stack.directory / "kube-scheduler.yaml").write_text((CASES / "r18/config.yaml").read_text())
    (message,) = stack.refused(configurationFile="kube-scheduler.yaml")
    assert "these are Helm values, no configuration" in message


def test_the_flavour_setting_wins_over_the_images_name(stack: Stack) -> None:
    digest = "mirror.example.com/schedulers/go@sha256:" + "0" * 64
    assert stack.check(schedulerImage=digest).configuration.flavour.name == "custom"
    flavour = stack.check(schedulerImage=digest, flavour="scheduler-plugins@0.33").configuration.flavour
    assert flavour.name == "scheduler-plugins@0.33"
    assert stack.check(schedulerImage=digest, flavour="ours").configuration.flavour.is_ours
    (message,) = stack.refused(flavour="our")
    assert message.startswith('Pulumi.test.yaml: flavour: flavour "our" is not known; did you mean "ours"?')


EXTRA = {
    "name": "GpuAware",
    "points": ["filter", "score"],
    "args": {"reserve": 2},
    "rbac": [{"apiGroups": ["gpu.example.com"], "resources": ["gpus"], "verbs": ["get", "list", "watch"]}],
    "crds": ["gpus.gpu.example.com"],
}


def test_a_custom_image_may_have_plugins_of_its_own_whose_args_are_passed_through_with_a_warning(stack: Stack) -> None:
    plugins = {"score": {"enabled": [{"name": "GpuAware", "weight": 4}]}}
    profile = stack.check(schedulerImage=CUSTOM, extraPlugins=[EXTRA], plugins=plugins)
    (scheduler,) = profile.configuration.profiles
    assert "GpuAware" in [plugin.name for plugin in scheduler.plugins(ExtensionPoint.SCORE)]
    assert "reserve: 2" in profile.content
    assert "gpus.gpu.example.com" in profile.crds
    rules = profile.extra_roles["secondary-scheduler:plugin:gpuaware"]
    assert [rule.to_dict() for rule in rules] == EXTRA["rbac"]
    assert not stack.check(schedulerImage=CUSTOM, extraPlugins=[EXTRA]).extra_roles, "only those that run get rights"
    assert [warning.path for warning in profile.warnings] == ["extraPlugins[0].args"]
    assert "passed through unchecked" in profile.warnings[0].message
    own = {"score": {"enabled": [{"name": "GpuAware", "weight": 4, "args": {"reserve": 3}}]}}
    profile = stack.check(schedulerImage=CUSTOM, extraPlugins=[EXTRA], plugins=own)
    assert "reserve: 3" in profile.content
    assert [warning.path for warning in profile.warnings] == ["plugins.score.enabled[0].args"]


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"extraPlugins": [EXTRA]}, "extraPlugins", ["this one is ours", "flavour: custom"]),
        ({"extraPlugins": [EXTRA], "schedulerImage": GO.format("0.34.7")}, "extraPlugins", ["scheduler-plugins@0.34"]),
        ({"extraPlugins": [EXTRA, EXTRA], "flavour": "custom"}, "extraPlugins[1].name", ["already declared at extraPlugins[0]"]),
        ({"extraPlugins": [{**EXTRA, "name": "NodeName"}], "flavour": "custom"}, "extraPlugins[0].name", ["a known plugin"]),
        ({"extraPlugins": [{**EXTRA, "points": ["scoring"]}], "flavour": "custom"}, "extraPlugins[0].points[0]", ['did you mean "score"?']),
        ({"extraPlugins": [{**EXTRA, "points": []}], "flavour": "custom"}, "extraPlugins[0].points", ["must not be empty"]),
        ({"extraPlugins": [{**EXTRA, "args": {"password": "x"}}], "flavour": "custom"}, "extraPlugins[0].args", ["must not hold password"]),
        ({"extraPlugins": [{**EXTRA, "rbac": [{"verbs": ["get"]}]}], "flavour": "custom"}, "extraPlugins[0].rbac[0].apiGroups", ["missing"]),
        ({"extraPlugins": [{**EXTRA, "rbac": {}}], "flavour": "custom"}, "extraPlugins[0].rbac", ["must be a list"]),
        ({"extraPlugins": [{**EXTRA, "crd": []}], "flavour": "custom"}, "extraPlugins[0].crd", ['did you mean "crds"?']),
        ({"extraPlugins": [{**EXTRA, "crds": ["Gpus"]}], "flavour": "custom"}, "extraPlugins[0].crds[0]", ["lower case"]),
        ({"extraPlugins": "GpuAware"}, "extraPlugins", ['must be a list, not "GpuAware"']),
        (
            {"schedulerImage": CUSTOM, "plugins": {"score": {"enabled": [{"name": "GpuAware"}]}}},
            "plugins.score.enabled[0].name", ["declare it under extraPlugins"],
        ),
        (
            {"schedulerImage": CUSTOM, "extraPlugins": [EXTRA], "plugins": {"permit": {"enabled": [{"name": "GpuAware"}]}}},
            "plugins.permit.enabled[0].name", ["it extends filter, score"],
        ),
    ],
)  # fmt: skip
def test_a_problem_in_extra_plugins_is_reported_at_its_place(
    stack: Stack, changes: dict[str, Any], path: str, words: list[str]
) -> None:
    messages = stack.refused(**changes)
    paths = {line.split(": ")[1] for line in messages}
    assert path in paths
    (line, *_) = [line for line in messages if line.startswith(f"Pulumi.test.yaml: {path}: ")]
    for word in words:
        assert word in line


# --- versions -------------------------------------------------------------------------------------------------------

OLD_CLUSTER = {"clusterIdentifier": "test", "openshiftVersion": "4.17"}
NEW_OPERATOR = "registry.redhat.io/x/secondary-scheduler-rhel9-operator:v1.6.0"


def test_versions_that_do_not_go_together_are_warned_of_refused_or_passed_as_the_stack_says(stack: Stack) -> None:
    versions = {"cluster": OLD_CLUSTER, "operatorImage": NEW_OPERATOR, "schedulerImage": GO.format("0.30.12")} | BY_LOAD
    (warning,) = stack.warned(**versions)
    assert warning.startswith("Pulumi.test.yaml: operatorImage: operator 1.6.0 supports OpenShift 4.22, 4.23, not")
    assert stack.refused(**versions, compatibilityCheck="fail") == [warning]
    assert stack.warned(**versions, compatibilityCheck="off") == []


def test_without_the_versions_of_the_cluster_nothing_is_guessed(stack: Stack) -> None:
    assert stack.warned(operatorImage=NEW_OPERATOR, schedulerImage=GO.format("0.30.12"), **BY_LOAD) == []


@pytest.mark.parametrize(
    ("cluster", "pinned"),
    [
        ({"openshiftVersion": "5.0"}, "1.36"),
        ({"openshiftVersion": "4.23"}, "1.36"),
        ({"openshiftVersion": "4.22"}, "1.35"),
        ({"openshiftVersion": "4.16"}, "1.34"),
        ({"openshiftVersion": "5.1"}, None),
        ({"openshiftVersion": "5.1", "kubernetesVersion": "1.37"}, "1.37"),
        ({"openshiftVersion": "5.0", "kubernetesVersion": "1.35"}, "1.35"),
        ({"kubernetesVersion": "1.36"}, "1.36"),
        ({}, None),
    ],
)
def test_the_cluster_s_version_chooses_which_kube_scheduler_it_behaves_as(
    stack: Stack, cluster: dict[str, str], pinned: str | None
) -> None:
    checked = stack.check(cluster={"clusterIdentifier": "test", **cluster})
    (profile,) = checked.configuration.profiles
    assert profile.options.kubernetes_version == pinned
    assert profile.kubernetes.name == (pinned or "1.34")


def test_contradicting_versions_are_reported_at_the_cluster(stack: Stack) -> None:
    cluster = {**OLD_CLUSTER, "kubernetesVersion": "1.34"}
    assert any(
        line.startswith("Pulumi.test.yaml: cluster.openshiftVersion: ") for line in stack.warned(cluster=cluster)
    )
