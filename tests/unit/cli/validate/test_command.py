"""`validate` and `convert`: what they print, where, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from secondary_scheduler.cli import app
from secondary_scheduler.cli.errors import CommandError, ExitCode

ROOT = Path(__file__).parents[4]
DATA = ROOT / "tests/data/configurations"
GOOD = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
  plugins: {multiPoint: {disabled: [{name: DefaultPreemption}, {name: DynamicResources}]}}
"""
BAD = GOOD.replace("schedulerName: mine", "schedulerName: mine\n  colour: blue")
MANIFEST = """\
# A manifest as people apply it.
apiVersion: v1
kind: Secret
metadata: {name: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data:
  config.yaml: |
"""


def call(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app.build(arguments), list(arguments), input=stdin)


def config_map(text: str, key: str = "config.yaml") -> str:
    return MANIFEST.replace("config.yaml", key) + "".join(f"    {line}\n" for line in text.splitlines())


def written(directory: Path, text: str, name: str = "f.yaml") -> str:
    file = directory / name
    file.write_text(text)
    return str(file)


def test_a_good_file_is_one_line_and_exit_0(tmp_path: Path) -> None:
    name = written(tmp_path, GOOD)
    result = call("validate", name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{name}: KubeSchedulerConfiguration is valid, schedulers: mine\n"


RESOURCE = """\
apiVersion: operator.openshift.io/v1
kind: SecondaryScheduler
metadata: {name: cluster, namespace: openshift-secondary-scheduler-operator}
spec:
  schedulerConfig: config
  schedulerImage: registry.k8s.io/scheduler-plugins/kube-scheduler:v0.28.9
"""


def test_a_secondary_scheduler_is_checked_and_says_for_which_image_the_config_map_beside_it_is(tmp_path: Path) -> None:
    name = written(tmp_path, RESOURCE)
    assert call("validate", name).stdout == f"{name}: SecondaryScheduler is valid\n"
    peaks = GOOD.replace("multiPoint: {disabled", "score: {enabled: [{name: Peaks}]}, multiPoint: {disabled")
    manifests = written(tmp_path, f"{RESOURCE}---\n{config_map(peaks)}", "manifests.yaml")
    result = call("validate", manifests)
    assert result.exit_code == ExitCode.INVALID_INPUT
    assert '"Peaks" does not exist in scheduler-plugins@0.28' in result.stderr


def test_a_token_is_accepted_in_the_config_map_of_a_resource_that_allows_it(tmp_path: Path) -> None:
    config = ", pluginConfig: [{name: TargetLoadPacking, args: {metricProvider: {type: Prometheus, "
    config += "address: https://p, token: abc}}}]"
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: a"
    text += f"{config}, plugins: {{score: {{enabled: [{{name: TargetLoadPacking}}]}}}}}}]\n"
    for allows, code in (("false", ExitCode.INVALID_INPUT), ("true", 0)):
        resource = RESOURCE.replace("v0.28.9", "v0.34.7") + f"  allowTokenInConfigMap: {allows}\n"
        name = written(tmp_path, f"{resource}---\n{config_map(text)}")
        result = call("validate", name)
        assert result.exit_code == code, result.stderr


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("schedulerImage", "schedulerImge", 6, ['spec.schedulerImge: unknown field "schedulerImge"', "schedulerImage"]),
        ("  schedulerConfig: config\n", "", 4, ["spec.schedulerConfig: missing", "ConfigMap"]),
        ("v0.28.9", "v0.28.9\n  logLevel: debug", 7, ["spec.logLevel", '"debug" is not allowed', "Debug"]),
        ("v0.28.9", "v0.28.9\n  flavour: theirs", 7, ["spec.flavour", '"theirs" is not known']),
        ("v0.28.9", "v0.28.9\n  topology: {mode: Many}", 7, ["spec.topology.mode", "HighlyAvailable"]),
        ("v0.28.9", "v0.28.9\n  metricCredentials: {secretName: y, a: x}", 7, ["spec.metricCredentials.a", "unknown"]),
        ("v0.28.9", "v0.28.9\n  managementState: managed", 7, ["spec.managementState", "Managed"]),
        ("/v1\n", "/v2\n", 1, ["apiVersion: must be operator.openshift.io/v1"]),
        ("spec:", "specs:", 1, ["spec: must be a map"]),
    ],
)  # fmt: skip
def test_a_mistake_in_a_secondary_scheduler_has_line_field_and_remedy(
    tmp_path: Path, old: str, new: str, line: int, words: list[str]
) -> None:
    name = written(tmp_path, RESOURCE.replace(old, new, 1))
    result = call("validate", name)
    assert result.exit_code == ExitCode.INVALID_INPUT
    assert result.stdout.startswith(f"{name}: SecondaryScheduler is not valid: ")
    (message, *_) = [each for each in result.stderr.splitlines() if all(word in each for word in words)]
    assert message.startswith(f"{name}:{line}:"), message


def test_errors_stand_on_stderr_with_their_place_and_the_exit_code_is_4(tmp_path: Path) -> None:
    bad, good = written(tmp_path, BAD), written(tmp_path, GOOD, "good.yaml")
    result = call("validate", bad, good)
    assert result.exit_code == 4
    assert result.stderr.startswith(f'{bad}:5:3: profiles[0].colour: unknown field "colour"; ')
    assert result.stdout.splitlines()[0] == f"{bad}: KubeSchedulerConfiguration is not valid: 1 error"
    assert result.stdout.splitlines()[1].endswith("good.yaml: KubeSchedulerConfiguration is valid, schedulers: mine")


def test_errors_in_a_manifest_name_its_own_lines_and_columns(tmp_path: Path) -> None:
    name = written(tmp_path, config_map(BAD))
    result = call("validate", name)
    assert result.exit_code == 4
    assert result.stderr.startswith(f'{name}:15:7: data[config.yaml].profiles[0].colour: unknown field "colour"')
    line = Path(name).read_text().splitlines()[15 - 1]
    assert line[7 - 1 :].startswith("colour")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (config_map(GOOD), 0, ""),
        (config_map(GOOD, "scheduler-config.yaml"), 0, "reads the key config.yaml, not scheduler-config.yaml"),
        (config_map("nothing", "notes"), 4, "the ConfigMap has no key config.yaml (its keys: notes)"),
        ("apiVersion: v1\nkind: ConfigMap\n", 4, "the ConfigMap has no key config.yaml (its keys: none)"),
        ("a: [", 4, "not valid YAML"),
        ("", 4, "the file is empty"),
        ("apiVersion: v1\nkind: Pod\n", 4, "this is a Pod of v1, no configuration"),
        (GOOD.replace("mine", "default-scheduler"), 0, "competes with the cluster's own"),
        (GOOD.replace("mine", "MyScheduler"), 4, 'schedulerName: Invalid value: "MyScheduler": must be a DNS-1123'),
        (config_map(GOOD.replace("mine", "$(touch X)`id`;|")), 4, "profiles[0].schedulerName: Invalid value: "),
    ],
    ids=["manifest", "other key", "no such key", "no data", "no YAML", "empty", "other kind", "default-scheduler",
         "upper case", "commands"],
)  # fmt: skip
def test_whatever_the_file_is_it_is_judged(tmp_path: Path, text: str, code: int, message: str) -> None:
    result = call("validate", written(tmp_path, text))
    assert result.exit_code == code
    assert message in result.stderr
    assert bool(result.stderr) == bool(message)


def test_a_token_is_a_warning_in_a_file_and_an_error_in_a_config_map(tmp_path: Path) -> None:
    provider = '{type: Prometheus, address: "https://p", token: very-secret}'
    text = GOOD + f"  pluginConfig:\n  - name: TargetLoadPacking\n    args: {{metricProvider: {provider}}}\n"
    file, manifest = written(tmp_path, text), written(tmp_path, config_map(text), "cm.yaml")
    for arguments, code, mark in (
        ((file,), 0, "warning: "),
        ((manifest,), 4, ""),
        ((manifest, "--allow-token-in-config-map"), 0, "warning: "),
    ):
        result = call("validate", *arguments)
        assert result.exit_code == code
        assert result.stderr.startswith(f"{mark}{arguments[0]}:")
        assert "a token in a ConfigMap can be read by everyone" in result.stderr
        assert "very-secret" not in result.output


def test_json_holds_every_problem_as_data(tmp_path: Path) -> None:
    result = call("validate", written(tmp_path, BAD), written(tmp_path, GOOD, "good.yaml"), "-o", "json")
    assert result.exit_code == 4
    data = json.loads(result.stdout)
    bad, good = data["files"]
    assert data["valid"] is bad["valid"] is False
    assert good["valid"] is True
    (problem,) = bad["problems"]
    assert (problem["severity"], problem["line"], problem["column"]) == ("error", 5, 3)
    assert problem["path"] == "profiles[0].colour"
    assert (good["version"], good["flavour"]) == ("v1", "ours")
    assert good["profiles"][0]["schedulerName"] == "mine"


def test_the_image_decides_what_is_valid(tmp_path: Path) -> None:
    name = written(tmp_path, GOOD.replace("/v1\n", "/v1beta3\n"))
    assert call("validate", name).exit_code == 0
    refused = call("validate", name, "--image", "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.29.8")
    assert refused.exit_code == 4
    assert "scheduler-plugins@0.29 does not read v1beta3 and would not start" in refused.stderr
    assert call("validate", name, "--flavour", "scheduler-plugins@0.28").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("validate", "-", "-"), ExitCode.USAGE, "-: standard input can be read once"),
        (("validate", "-", "--flavour", "go"), ExitCode.USAGE, '--flavour: flavour "go" is not known'),
        (
            ("validate", "-", "--flavour", "ours", "--image", "x"),
            ExitCode.USAGE,
            "--image and --flavour exclude each other",
        ),
        (("convert", "absent.yaml"), ExitCode.INVALID_INPUT, "absent.yaml: No such file or directory"),
    ],
)
def test_what_cannot_be_read_or_asked_is_one_line(arguments: tuple[str, ...], code: ExitCode, message: str) -> None:
    error = call(*arguments).exception
    assert isinstance(error, CommandError)
    assert error.code == code
    assert message in str(error)


def test_the_stacks_of_this_project_are_valid_and_a_slip_in_one_is_named(tmp_path: Path) -> None:
    for stack in ("local", "openshift-prod"):
        result = call("validate", str(ROOT / f"stacks/Pulumi.{stack}.yaml"))
        assert result.exit_code == 0, result.stderr
        assert "stack is valid, schedulers: secondary-scheduler" in result.stdout
    project = tmp_path / "project"
    (project / "stacks").mkdir(parents=True)
    (project / "Pulumi.yaml").write_text("name: secondary-scheduler\n")
    text = (
        (ROOT / "stacks/Pulumi.openshift-prod.yaml")
        .read_text()
        .replace("targetUtilization: 40", "targetUtilisation: 40")
    )
    result = call("validate", written(project / "stacks", text, "Pulumi.mine.yaml"))
    line = text.splitlines().index("            targetUtilisation: 40") + 1
    assert result.exit_code == 4
    assert f"Pulumi.mine.yaml:{line}:" in result.stderr
    assert 'did you mean "targetUtilization"?' in result.stderr


def test_a_stack_file_without_its_project_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("validate", written(tmp_path, "config: {}\n", "Pulumi.x.yaml"))
    assert result.exit_code == ExitCode.INVALID_INPUT
    assert "neither above it nor above the working directory is a Pulumi.yaml" in result.stderr


def test_convert_writes_v1_to_stdout_or_a_file_and_tells_the_changes(tmp_path: Path) -> None:
    text = (DATA / "operator-readme-v1beta1.yaml").read_text()
    text = text.replace("${PROM_URL}", "https://p").replace("${PROM_TOKEN}", "very-secret") + "# the end\n"
    result = call("convert", "-", stdin=text)
    assert result.exit_code == 0
    data = yaml.safe_load(result.stdout)
    assert data["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert {"name": "NodeResourcesFit"} in data["profiles"][0]["plugins"]["score"]["disabled"]
    assert "# the end" in result.stdout
    assert all(line.startswith("warning: -:") for line in result.stderr.splitlines())
    assert "v1beta1 was last served by Kubernetes 1.22" in result.stderr
    target = tmp_path / "v1.yaml"
    assert call("convert", "-", "--file", str(target), stdin=text).stdout == ""
    assert target.read_text() == result.stdout
    assert call("validate", str(target)).exit_code == 0


def test_convert_refuses_what_it_cannot_express_and_writes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "v1.yaml"
    result = call("convert", str(DATA / "operator-readme-v1beta1.yaml"), "--file", str(target))
    assert result.exit_code == 4
    assert "unresolved placeholder ${PROM_URL}" in result.stderr
    assert not target.exists()


def test_convert_leaves_v1_and_the_name_default_scheduler_alone() -> None:
    text = "# mine\n" + GOOD.replace("mine", "default-scheduler")
    result = call("convert", "-", stdin=text)
    assert (result.exit_code, result.stdout) == (0, text)


def test_every_file_is_reported_also_after_one_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bad, good = written(tmp_path, BAD), written(tmp_path, GOOD, "good.yaml")
    orphan = written(tmp_path, "config: {}\n", "Pulumi.prod.yaml")
    absent = str(tmp_path / "absent.yaml")
    result = call("validate", absent, orphan, str(tmp_path), bad, good)
    assert result.exit_code == ExitCode.INVALID_INPUT
    assert result.stderr.splitlines()[0] == f"{absent}: No such file or directory"
    assert result.stdout.splitlines() == [
        f"{absent}: cannot be checked",
        f"{orphan}: cannot be checked",
        f"{tmp_path}: cannot be checked",
        f"{bad}: KubeSchedulerConfiguration is not valid: 1 error",
        f"{good}: KubeSchedulerConfiguration is valid, schedulers: mine",
    ]
    data = json.loads(call("validate", absent, good, "-o", "json").stdout)
    assert [(file["file"], file["valid"]) for file in data["files"]] == [(absent, False), (good, True)]


def test_r03_convert_takes_the_configuration_out_of_a_config_map_and_keeps_what_it_does_not_know() -> None:
    file = ROOT / "tests/data/cases/r03/config.yaml"
    result = call("convert", str(file))
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert "store-plugin" in result.stdout
    assert f"{file}: ConfigMap store/store-scheduler-config, key store-scheduler-config.yaml\n" in result.stderr
    assert 'plugin "store-plugin" is not known here: it is kept' in result.stderr
    judged = call("validate", str(file))
    assert "ConfigMap store/store-scheduler-config, key store-scheduler-config.yaml is not valid" in judged.stdout


@pytest.mark.parametrize("command", ["convert", "validate"])
def test_what_is_no_configuration_is_named_by_every_command(command: str, tmp_path: Path) -> None:
    file = written(tmp_path, "apiVersion: apps/v1\nkind: Deployment\n")
    result = call(command, file)
    assert result.exit_code == ExitCode.INVALID_INPUT
    assert result.stderr.startswith(f"{file}:1:1: this is a Deployment of apps/v1, no configuration; ")


def test_convert_still_takes_a_name_like_a_known_one_for_a_mistake() -> None:
    text = GOOD.replace("/v1\n", "/v1beta3\n").replace(
        "multiPoint: {", "score: {enabled: [{name: NodeAffinty}]}, multiPoint: {"
    )
    result = call("convert", "-", stdin=text)
    assert result.exit_code == ExitCode.INVALID_INPUT
    assert 'did you mean "NodeAffinity"?' in result.stderr


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("k8s.gcr.io/scheduler-plugins/kube-scheduler:v0.24.9", ["k8s.gcr.io", "frozen", "registry.k8s.io"]),
        ("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.29.7", ["0.29.7", "broken"]),
    ],
)
def test_an_image_that_should_not_be_used_is_warned_of(tmp_path: Path, image: str, words: list[str]) -> None:
    text = GOOD.replace("/v1\n", "/v1beta3\n") if "0.24" in image else GOOD
    text = text.replace(", {name: DynamicResources}", "") if "0.24" in image else text
    for result in (
        call("validate", "--image", image, written(tmp_path, text)),
        call(
            "validate",
            written(
                tmp_path, RESOURCE.replace("registry.k8s.io/scheduler-plugins/kube-scheduler:v0.28.9", image), "r.yaml"
            ),
        ),
    ):
        assert result.exit_code == 0, result.stderr
        assert all(word in result.stderr for word in words), result.stderr


def test_a_secondary_scheduler_that_upstreams_operator_does_not_serve_is_warned_of(tmp_path: Path) -> None:
    served = call("validate", written(tmp_path, RESOURCE))
    assert served.stderr == ""
    for name in ("mine", "cluster-2", "Cluster"):
        result = call("validate", written(tmp_path, RESOURCE.replace("{name: cluster", f"{{name: {name}")))
        assert result.exit_code == 0
        assert 'upstream\'s operator acts on the SecondaryScheduler named "cluster" only' in result.stderr
