"""What Helm makes of the rendered chart without a cluster: lint, template, values and their schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler import __version__
from scheduler.config import configuration_hash, parse_spec
from tests.support import kustomizing
from tests.support.helming import HOOK, Helm, by_name
from tests.support.rendering import Project

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NAMESPACE = "openshift-secondary-scheduler-operator"
DIGEST = f"sha256:{'b' * 64}"
SCHEDULER, OPERATOR = ("SecondaryScheduler", "cluster"), ("Deployment", "secondary-scheduler-operator")
# Texts of Go's template language (alerts, dashboard), several replicas, a metric source, plugins with CRDs, and a
# rebalancer.
FULL: dict[str, Any] = {
    "schedulerImage": f"registry.example.com/secondary-scheduler/kube-scheduler:{__version__}@{DIGEST}",
    "operatorImage": f"registry.example.com/secondary-scheduler/operator@{DIGEST}",
    "replicas": 3,
    "logLevel": "Debug",
    "rebalance": {"mode": "Predictive"},
    "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
    "optionalObjects": {"prometheusRule": True, "serviceMonitor": True, "grafanaDashboard": True},
    "metricProvider": {
        "type": "Prometheus",
        "address": "https://prometheus.example.com",
        "credentials": {"existingSecret": {"name": "prometheus-token"}},
    },
    "plugins": {
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": ["*"]},
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "score": {"enabled": [{"name": "TargetLoadPacking", "weight": 10, "args": {"targetUtilization": 55}}]},
    },
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("render"))
    project.stack("plain")
    project.stack("full", FULL)
    project.stack("by-program", FULL, rebalance={"mode": "Predictive", "runBy": "Program"})
    return project


@pytest.fixture(scope="module")
def charts(project: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A chart per stack."""
    written = {}
    for stack in ("plain", "full", "by-program"):
        written[stack] = tmp_path_factory.mktemp(stack)
        done = project.render("--stack", stack, "--format", "helm", "--output-dir", str(written[stack]))
        assert done.returncode == 0, done.stderr
    return written


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    home = tmp_path_factory.mktemp("helm")
    return Helm(home, home / "no-kubeconfig")


@pytest.mark.parametrize("stack", ["plain", "full"])
def test_a_chart_has_no_fault_that_helm_knows(helm: Helm, charts: dict[str, Path], stack: str) -> None:
    assert "0 chart(s) failed" in helm.done("lint", "--strict", str(charts[stack]))


@pytest.mark.parametrize("stack", ["plain", "full", "by-program"])
def test_its_own_values_make_the_objects_of_the_plain_rendering(
    helm: Helm, charts: dict[str, Path], project: Project, stack: str
) -> None:
    assert by_name(helm.template(charts[stack])) == by_name(project.manifests(stack))


def test_for_argo_cd_it_has_the_waves_of_the_kustomization(
    helm: Helm, charts: dict[str, Path], project: Project, tmp_path: Path
) -> None:
    done = project.render("--stack", "full", "--format", "kustomize", "--output-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    expected = [manifest for manifest in kustomizing.build(tmp_path) if manifest["kind"] != "CustomResourceDefinition"]
    objects = helm.template(charts["full"], "--set", "argocd=true")
    rest = [manifest for manifest in objects if manifest["kind"] != "CustomResourceDefinition"]
    assert by_name(rest) == by_name(expected)
    printed = helm.done("template", "release", str(charts["full"]), "--set", "argocd=true")
    assert HOOK not in printed, "Argo CD takes Helm's hooks for its own"


def test_a_rebalancer_is_scraped_and_has_alerts_whoever_runs_it(helm: Helm, charts: dict[str, Path]) -> None:
    name = "secondary-scheduler-rebalancer"
    for stack, kinds in {"full": set(), "by-program": {"Deployment", "Service", "ServiceMonitor"}}.items():
        objects = by_name(helm.template(charts[stack]))
        assert {kind for kind, each in objects if each == name} >= kinds
        rules = objects["PrometheusRule", "secondary-scheduler"]["spec"]["groups"][0]["rules"]
        assert [rule for rule in rules if f'job="{name}",namespace="{NAMESPACE}"' in rule["expr"]], stack
    assert ("Service", name) not in by_name(helm.template(charts["full"]))


def test_the_releases_own_namespace_is_not_part_of_it(helm: Helm, charts: dict[str, Path]) -> None:
    elsewhere, inside = (by_name(helm.template(charts["plain"], "-n", name)) for name in ("default", NAMESPACE))
    assert set(elsewhere) - set(inside) == {("Namespace", NAMESPACE)}
    assert all(inside[key] == elsewhere[key] for key in inside)


def test_values_reach_the_scheduler_and_the_operator(helm: Helm, charts: dict[str, Path], tmp_path: Path) -> None:
    placement = {
        "nodeSelector": {"pool": "infra"},
        "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
        "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "3Gi"}},
    }
    image = {"repository": "mirror.example.com/secondary-scheduler/kube-scheduler", "tag": "", "digest": DIGEST}
    values = {
        "scheduler": {**placement, "image": image, "replicas": 2, "logLevel": "Trace"},
        "operator": {**placement, "image": {"tag": "9.9.9"}},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    objects = by_name(helm.template(charts["plain"], "--values", str(tmp_path / "values.yaml")))

    spec = parse_spec(objects[SCHEDULER])
    assert spec.scheduler_image == f"{image['repository']}@{DIGEST}"
    assert (spec.replicas, spec.log_level) == (2, "Trace")
    assert (spec.node_selector, spec.tolerations) == (placement["nodeSelector"], placement["tolerations"])
    assert spec.resources == placement["resources"]

    pod = objects[OPERATOR]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "localhost/secondary-scheduler/operator:9.9.9"
    assert (pod["nodeSelector"], pod["tolerations"]) == (placement["nodeSelector"], placement["tolerations"])
    # Helm merges maps: what the chart's own values have beside it stays.
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "96Mi"}
    assert container["resources"]["limits"] == {"memory": "3Gi"}

    policy = objects["ValidatingAdmissionPolicy", "secondary-scheduler-images"]
    assert f'["{image["repository"]}"]' in policy["spec"]["validations"][0]["expression"]


@pytest.mark.parametrize(
    "ending",
    ["", "\n", "\n\n", "\n# a comment with <angle> brackets & an ampersand\n", "\nextenders: []\n\n   \n"],
)
def test_a_configuration_is_taken_as_it_is_and_names_its_config_map(
    helm: Helm, charts: dict[str, Path], tmp_path: Path, ending: str
) -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- schedulerName: second\n  pluginConfig:\n  - name: TargetLoadPacking\n"
        f"    args: {{targetUtilization: 60, metricProvider: {{type: Prometheus, address: 'http://p/?a=1&b=<2>'}}}}{ending}"
    )
    (tmp_path / "config.yaml").write_text(text)
    objects = by_name(helm.template(charts["plain"], "--set-file", f"configuration={tmp_path / 'config.yaml'}"))
    name = f"secondary-scheduler-config-{configuration_hash(text)[:8]}"
    assert objects["ConfigMap", name]["data"] == {"config.yaml": text}
    assert objects[SCHEDULER]["spec"]["schedulerConfig"] == name


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("scheduler.replicas=0", "replicas"),
        ("scheduler.logLevel=Loud", "logLevel"),
        ("scheduler.colour=red", "colour"),
        ("scheduler.image.digest=sha256:1", "digest"),
        ("scheduler.image.repository=a b", "repository"),
        ("operator.tolerations[0].effect=Never", "effect"),
        ("configuration=kind: Pod", "must be a KubeSchedulerConfiguration"),
        ("configuration=[", "not valid YAML"),
    ],
)
def test_wrong_values_are_refused_by_name(helm: Helm, charts: dict[str, Path], setting: str, message: str) -> None:
    done = helm.run("template", str(charts["plain"]), "--set", setting)
    assert done.returncode != 0
    assert message in done.stderr


def test_a_plugin_without_rights_in_the_chart_is_refused_by_name(
    helm: Helm, charts: dict[str, Path], tmp_path: Path
) -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: s, plugins: {multiPoint: {enabled: [{name: Coscheduling}]}}}]\n"
    )
    (tmp_path / "config.yaml").write_text(text)
    setting = ("--set-file", f"configuration={tmp_path / 'config.yaml'}")
    done = helm.run("template", str(charts["plain"]), *setting)
    assert done.returncode != 0
    assert "enables Coscheduling, whose rights this chart lacks; enable it in stack plain" in done.stderr
    assert helm.run("template", str(charts["full"]), *setting).returncode == 0


def test_a_parent_chart_may_have_global_values(helm: Helm, charts: dict[str, Path], tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    (parent / "charts").mkdir(parents=True)
    (parent / "Chart.yaml").write_text("apiVersion: v2\nname: parent\nversion: 1.0.0\n")
    (parent / "values.yaml").write_text("global: {region: north}\n")
    (parent / "charts/secondary-scheduler").symlink_to(charts["plain"])
    assert set(by_name(helm.template(parent))) == set(by_name(helm.template(charts["plain"])))


@pytest.mark.parametrize("mode", ["olm", "direct", "none"])
def test_a_stack_that_installs_otherwise_is_refused(project: Project, tmp_path: Path, mode: str) -> None:
    project.stack(mode, installMode=mode)
    done = project.render("--stack", mode, "--format", "helm", "--output-dir", str(tmp_path / "chart"))
    assert done.returncode == 2
    assert "--format kustomize" in done.stderr
    assert not (tmp_path / "chart").exists()
