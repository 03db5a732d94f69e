"""`render --format helm`: files, values and their schema. What Helm makes of them is in tests/integration/helm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler import __version__
from scheduler.catalog import LOG_VERBOSITY
from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.render.chart import ValuePlaces, chart
from secondary_scheduler.cli.render.manifests import build
from stacks.settings import StackSettings
from tests.support.jsonschemas import mistakes
from tests.support.rendering import Project
from tests.unit.cli.render.test_manifests import SECRET_MARK, registered

DIGEST = f"sha256:{'a' * 64}"
SCHEDULER = f"registry.example.com:5000/ss/kube-scheduler:1.2@{DIGEST}"
CONFIGURATION = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def operator(command: str = "/bin/secondary-scheduler-operator") -> dict[str, Any]:
    container = {
        "name": "operator",
        "image": "r/operator:1.2",
        "command": [command],
        "resources": {"limits": {"memory": "512Mi"}},
    }
    return registered("Deployment", "operator", spec={"template": {"spec": {"containers": [container]}}})


def scheduler(**spec: Any) -> dict[str, Any]:
    usual = {"schedulerConfig": "config-0a1b2c3d", "schedulerImage": SCHEDULER, "logLevel": "Normal"}
    instance = registered("SecondaryScheduler", "cluster", "Deployment/operator", spec={**usual, **spec})
    instance["inputs"]["apiVersion"] = "operator.openshift.io/v1"
    return instance


def namespace() -> dict[str, Any]:
    labelled = registered("Namespace", "ns")
    labelled["inputs"]["metadata"] = {"name": "ns", "labels": {"enforce": "restricted"}}
    return labelled


def files_of(*more: dict[str, Any], instance: dict[str, Any] | None = None) -> dict[str, str]:
    config_map = registered("ConfigMap", "config-0a1b2c3d", data={"config.yaml": CONFIGURATION})
    objects = [namespace(), config_map, operator(), instance or scheduler(), *more]
    return {file.path: file.text for file in chart(build(objects, show_secrets=False), "prod")}


def template_of(kind: str, files: dict[str, str]) -> str:
    (text,) = (text for path, text in files.items() if f"-{kind.lower()}-" in path)
    return text


def test_the_version_is_that_of_the_program() -> None:
    about = yaml.safe_load(files_of()["Chart.yaml"])
    assert (about["version"], about["appVersion"]) == (__version__, __version__)
    assert about["kubeVersion"] == ">=1.29.0-0"
    policy = registered("ValidatingAdmissionPolicy", "images", spec={})
    assert yaml.safe_load(files_of(policy)["Chart.yaml"])["kubeVersion"] == ">=1.30.0-0"


def test_the_values_are_what_the_stack_says_and_match_their_own_schema() -> None:
    replicas = {"mode": "HighlyAvailable", "highlyAvailableTopology": {"maxReplicas": 3}}
    instance = scheduler(logLevel="Trace", topology=replicas, resources={"requests": {"cpu": "2"}})
    files = files_of(instance=instance)
    values = yaml.safe_load(files["values.yaml"])
    assert values["scheduler"] == {
        "image": {"repository": "registry.example.com:5000/ss/kube-scheduler", "tag": "1.2", "digest": DIGEST},
        "resources": {"requests": {"cpu": "2"}},
        "nodeSelector": {},
        "tolerations": [],
        "replicas": 3,
        "logLevel": "Trace",
    }
    assert values["operator"]["image"] == {"repository": "r/operator", "tag": "1.2", "digest": ""}
    assert values["operator"]["resources"] == {"limits": {"memory": "512Mi"}}
    assert values["configuration"] == CONFIGURATION
    assert "loadWatcher" not in values
    schema = json.loads(files["values.schema.json"])
    del schema["$comment"]
    assert not list(mistakes(values, schema, schema))
    assert list(mistakes({**values, "colour": "red"}, schema, schema))
    assert list(mistakes({**values, "scheduler": {**values["scheduler"], "replicas": 0}}, schema, schema))


def test_the_ranges_of_values_are_those_of_the_stacks_settings() -> None:
    of_values = json.loads(files_of()["values.schema.json"])["$defs"]["SchedulerValues"]["properties"]
    of_stacks = StackSettings.model_json_schema()["properties"]
    for key in ("minimum", "maximum", "type"):
        assert of_values["replicas"][key] == of_stacks["replicas"][key]
    assert of_values["logLevel"]["enum"] == of_stacks["logLevel"]["enum"] == list(LOG_VERBOSITY)


def test_a_load_watcher_has_values_of_its_own() -> None:
    watcher = operator("/bin/load-watcher")
    watcher["urn"], watcher["inputs"]["metadata"]["name"] = "Deployment/watcher", "watcher"
    files = files_of(watcher)
    assert yaml.safe_load(files["values.yaml"])["loadWatcher"]["image"]["repository"] == "r/operator"
    assert "loadWatcher" in json.loads(files["values.schema.json"])["properties"]


def test_a_rebalancer_follows_the_schedulers_image_and_configuration() -> None:
    rebalancer = operator("/bin/rebalancer")
    rebalancer["urn"], rebalancer["inputs"]["metadata"]["name"] = "Deployment/rebalancer", "rebalancer"
    pod = rebalancer["inputs"]["spec"]["template"]["spec"]
    pod["containers"][0]["image"] = SCHEDULER
    pod["volumes"] = [
        {"name": "configuration", "configMap": {"name": "config-0a1b2c3d"}},
        {"name": "settings", "configMap": {"name": "rebalancer-settings"}},
    ]
    (text,) = (text for path, text in files_of(rebalancer).items() if path.endswith("deployment-rebalancer.yaml"))
    assert ".Values.scheduler.image" in text
    assert "config-0a1b2c3d" not in text
    assert "rebalancer-settings" in text


def test_a_page_has_values_of_its_own_and_follows_the_configuration() -> None:
    page = operator("/bin/secondary-scheduler-page")
    page["urn"], page["inputs"]["metadata"]["name"] = "Deployment/page", "page"
    pod = page["inputs"]["spec"]["template"]["spec"]
    pod["containers"][0]["args"] = ["--config-map=there/config-0a1b2c3d", "--host=config-0a1b2c3d"]
    pod["volumes"] = [{"name": "configuration", "configMap": {"name": "config-0a1b2c3d"}}]
    files = files_of(page)
    assert yaml.safe_load(files["values.yaml"])["page"]["image"]["repository"] == "r/operator"
    assert "page" in json.loads(files["values.schema.json"])["properties"]
    (text,) = (text for path, text in files.items() if path.endswith("deployment-page.yaml"))
    assert ".Values.page.image" in text
    assert text.count("config-0a1b2c3d") == 1, "the host's name is another's"


def test_definitions_are_where_helm_never_deletes_them() -> None:
    definition = registered("CustomResourceDefinition", "things", spec={"text": "{{ not a template }}"})
    files = files_of(definition)
    (path,) = (path for path in files if "customresourcedefinition" in path)
    assert path.startswith("crds/")
    assert yaml.safe_load(files[path])["spec"] == {"text": "{{ not a template }}"}


def test_the_braces_of_an_alert_are_no_action() -> None:
    rule = registered("PrometheusRule", "alerts", spec={"summary": "{{ $labels.pod }} waits"})
    text = template_of("PrometheusRule", files_of(rule))
    assert '{{ "{{" }} $labels.pod }} waits' in text.replace('\\"', '"')
    assert "{{ $labels" not in text


def test_a_policy_names_the_repository_of_the_value_and_no_longer_one() -> None:
    repository = "registry.example.com:5000/ss/kube-scheduler"
    expression = f'["{repository}", "{repository}-go"].exists(r, image == r)'
    policy = registered("ValidatingAdmissionPolicy", "images", spec={"expression": expression})
    text = template_of("ValidatingAdmissionPolicy", files_of(policy))
    assert "{{ .Values.scheduler.image.repository }}" in text
    assert f"{repository}-go" in text
    assert text.count(repository) == 1


def test_what_is_left_out_is_in_the_notes_only() -> None:
    secret = registered("Secret", "s", stringData={"token": {**SECRET_MARK, "value": "canary"}})
    files = files_of(secret)
    assert "create secret generic s --from-file=token=FILE" in files["templates/NOTES.txt"]
    assert not [path for path in files if "-secret-" in path]
    assert "canary" not in "".join(files.values())


def test_markers_become_actions_wherever_they_stand() -> None:
    places = ValuePlaces()
    manifest = {
        "kind": "X",
        "alone": places.value(".Values.a"),
        "within": f"before {places.value('.Values.b')} after",
        "map": {"kept": 1, **places.optional("more", ".Values.c")},
    }
    assert places.text(manifest) == (
        "kind: X\n"
        "alone: {{ .Values.a }}\n"
        "within: before {{ .Values.b }} after\n"
        "map:\n"
        "  kept: 1\n"
        "  {{- with .Values.c }}\n"
        "  more:\n"
        "    {{- toYaml . | nindent 4 }}\n"
        "  {{- end }}\n"
    )


def test_a_stack_without_our_operator_is_refused_with_what_to_do() -> None:
    with pytest.raises(CommandError, match="--format kustomize") as caught:
        chart(build([namespace(), scheduler()], show_secrets=False), "prod")
    assert caught.value.code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--show-secrets", "--output-dir", "chart"), "exclude each other"), ((), "--output-dir DIR")],
)
def test_a_chart_is_written_to_a_directory_and_without_secrets(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    project = Project(tmp_path)
    project.stack("plain")
    done = project.render("--stack", "plain", "--format", "helm", *arguments)
    assert done.returncode == ExitCode.USAGE
    assert message in done.stderr
