# ruff: noqa: E501 -- tables and whole messages
"""What a snapshot holds that means something else than it seems: old groups, workloads, numbers that JSON has not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from secondary_scheduler.errors import InputError
from secondary_scheduler.yamltext import documents
from tests.support.simulating import Bench, node, pod, run

CASES = Path(__file__).parents[3] / "data/cases"
OLD = "scheduling.sigs.k8s.io"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def case(name: str, *snapshot: str, more: tuple[str, ...] = ()) -> tuple[int, str, str]:
    folder = CASES / name
    files = [folder / file for file in snapshot]
    done = run("simulate", "--config", folder / "config.yaml", "--snapshot", *files, *more)
    return done.code, done.out, done.err


def test_44_objects_and_labels_of_the_old_group_are_named_with_the_remedy() -> None:
    _, _, err = case("44", "cluster.yaml")
    assert f"not read: PodGroup default/train, ElasticQuota default/q of the group {OLD}" in err
    assert "write apiVersion: scheduling.x-k8s.io/v1alpha1" in err
    assert f"default/t0, default/t1, default/t2 belong to no PodGroup: the label pod-group.{OLD}" in err
    assert "no decision depends on them" not in err


@pytest.mark.parametrize(
    ("kind", "version"), [("PodGroup", "v1alpha1"), ("ElasticQuota", "v1alpha1"), ("ElasticQuota", "v1beta1")]
)
def test_each_kind_of_the_old_group_is_named(bench: Bench, kind: str, version: str) -> None:
    obj = {"apiVersion": f"{OLD}/{version}", "kind": kind, "metadata": {"name": "x", "namespace": "a"}, "spec": {}}
    assert f"not read: {kind} a/x of the group {OLD}" in bench.simulate(node("n"), obj).err


def test_pods_with_both_labels_or_none_are_fine(bench: Bench) -> None:
    twice_labelled = pod("a") | {
        "metadata": {"name": "a", "labels": {f"pod-group.{OLD}": "g", "scheduling.x-k8s.io/pod-group": "g"}}
    }
    assert "belong" not in bench.simulate(node("n"), twice_labelled, pod("b")).err
    alone = pod("c") | {"metadata": {"name": "c", "labels": {f"pod-group.{OLD}": "g"}}}
    assert "default/c belongs to no PodGroup" in bench.simulate(node("n"), alone).err


def test_37_a_workload_is_named_with_how_to_get_its_pods() -> None:
    code, _, err = case("37", "nodes.yaml", "deploy.yaml")
    assert code == 0
    assert (
        "Deployment shop/web, Job shop/train: workloads make no pods here, as no controller runs: give the Pods" in err
    )
    config, manifest = CASES / "37/config.yaml", CASES / "37/deploy.yaml"
    done = run("simulate", "--config", config, "--snapshot", CASES / "37/nodes.yaml", "--pod", manifest)
    assert done.code != 0
    assert "holds Deployment, Job; it takes one Pod of apiVersion v1; workloads make no pods here" in done.err


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("apps/v1", "ReplicaSet"), ("batch/v1", "CronJob"), ("v1", "ReplicationController")],
)  # fmt: skip
def test_every_kind_of_workload_is_named_unless_a_cluster_made_it(bench: Bench, api_version: str, kind: str) -> None:
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": {}}
    assert f"{kind} default/w: a workload makes no pods here" in bench.simulate(node("n"), pod("p"), manifest).err
    existing = manifest | {"metadata": {"name": "w", "uid": "u"}}
    assert "makes no pods" not in bench.simulate(node("n"), pod("p"), existing).err


def test_46_pods_with_numbers_that_json_has_not_are_left_out_with_field_and_reason() -> None:
    code, out, err = case("46", "cluster.yaml")
    assert code == 4
    field = "spec.containers[0].resources.requests.memory"
    assert f"Pod default/p: {field}: unsupported value: .inf (line 9); left out" in err
    assert f"Pod default/q: {field}: unsupported value: 1e400 (line 14); left out" in err
    assert "n1" not in out


@pytest.mark.parametrize("number", [".inf", "-.Inf", ".NaN", "1e999", "&a .inf"])
def test_such_a_number_keeps_its_object_out_wherever_it_stands(bench: Bench, number: str) -> None:
    items = yaml.safe_dump([node("good"), pod("p")], default_flow_style=None)
    bad = (
        f"- {{apiVersion: v1, kind: Node, metadata: {{name: bad}}, status: {{capacity: {{cpu: {number}, pods: 9}}}}}}\n"
    )
    result = bench.text(f"apiVersion: v1\nkind: List\nitems:\n{items}{bad}")
    assert result.nodes == {"default/p": "good"}
    assert "items[2]" in result.err
    assert "Node bad: status.capacity.cpu: unsupported value: " in result.err


def test_a_number_too_large_for_json_is_left_out_of_a_json_file_too(bench: Bench) -> None:
    text = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"priority": 1e400}}'
    result = bench.text(text, name="p.json")
    assert result.code == 4
    assert "Pod default/p: spec.priority: unsupported value: 1e400; left out" in result.err


def test_elsewhere_such_a_number_is_an_error_with_its_place() -> None:
    with pytest.raises(InputError, match=r"f:2:4: document 1: unsupported value: \.inf: JSON has no such number"):
        list(documents(b"a: 1\nb: .inf\n", "f"))
