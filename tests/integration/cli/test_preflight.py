"""`secondary-scheduler preflight` against a real Prometheus and a real API server; OpenShift's part with its Route CRD
on that API server (it has not been run on OpenShift)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import environment
from devcluster.cluster import LocalCluster
from devcluster.pki import CertificateAuthority
from devcluster.spec import ClusterSpec
from tests.support.simulating import Result, run as run_command
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.integration]

CHECKOUT = Path(__file__).resolve().parents[3]
SIMULATED = ("--selector", "type=kwok")


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    with LocalCluster(
        ClusterSpec(
            name="preflight", state_root=cluster_state_root, nodes=3, real_nodes=0, default_scheduler=False, tools=False
        )
    ) as cluster:
        deadline = time.monotonic() + PATIENCE_SECONDS
        # Until everything has been scraped and recorded for the first time.
        while any(check["status"] != "ok" for check in checks(run(cluster, *source(cluster), "-o", "json")).values()):
            assert time.monotonic() < deadline, run(cluster, *source(cluster)).out
            time.sleep(1)
        yield cluster


def run(cluster: LocalCluster, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Result:
    """Run the command in this process: it starts many times here, and importing takes longer than the checks."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SECONDARY_SCHEDULER_")}
    with mock.patch.dict(os.environ, {**clean, "COLUMNS": "200", **(env or {})}, clear=True):
        return run_command("preflight", "--kubeconfig", cluster.kubeconfig, *arguments)


def token(cluster: LocalCluster) -> tuple[str, str]:
    return "--token-file", str(cluster.prometheus_token_file)


def source(cluster: LocalCluster) -> tuple[str, ...]:
    return (
        *("--address", cluster.prometheus_url),
        *token(cluster),
        *("--ca-file", str(cluster.prometheus_ca_file)),
    )


def checks(done: Result) -> dict[str, dict[str, str]]:
    (result,) = json.loads(done.out)["sources"]
    return {check["name"]: check for check in result["checks"]}


def test_the_local_clusters_prometheus_passes_all_checks(cluster: LocalCluster) -> None:
    done = run(cluster, *source(cluster), "-o", "json")
    assert done.code == 0, done.out
    results = checks(done)
    assert {check["status"] for check in results.values()} == {"ok"}
    assert set(results) >= {"cluster", "reachable", "TLS", "token", "answers", "labels", "nodes", "ages", "values"}
    assert len([name for name in results if name.startswith("series ")]) == 4
    assert results["nodes"]["found"].startswith("3 of 3")
    assert results["labels"]["found"] == "3 by name, 0 by address, 0 of no node"
    assert "verified by" in results["TLS"]["found"]
    assert cluster.prometheus_token_file.read_text().strip() not in done.out + done.err


def test_the_table_names_the_source_and_says_what_to_do(cluster: LocalCluster) -> None:
    done = run(cluster, *source(cluster))
    assert done.code == 0
    assert cluster.prometheus_url in done.out
    assert "what to do" in done.out


def failing(cluster: LocalCluster, *arguments: str | Path) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """All checks, and the one that failed."""
    done = run(cluster, *arguments, "-o", "json")
    assert done.code == 1, done.out
    results = checks(done)
    (failed,) = [check for check in results.values() if check["status"] == "failed"]
    assert failed["advice"], "a line that failed says what to do"
    return results, failed


def test_a_wrong_ca_is_reported_before_a_token_is_sent(cluster: LocalCluster, tmp_path: Path) -> None:
    wrong = tmp_path / "ca.crt"
    wrong.write_bytes(CertificateAuthority("wrong").pair.certificate)
    results, failed = failing(cluster, *source(cluster), "--ca-file", wrong)
    assert failed["name"] == "TLS"
    assert "caFile" in failed["advice"]
    assert results["token"]["status"] == results["nodes"]["status"] == "skipped"


def test_a_refused_token_is_reported_and_not_shown(cluster: LocalCluster, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("canary-wrong-token")
    _, failed = failing(cluster, *source(cluster), "--token-file", token)
    assert failed["name"] == "token"
    assert "canary" not in json.dumps(failed)


def test_a_closed_port_is_reported(cluster: LocalCluster) -> None:
    _, failed = failing(cluster, "--address", "https://127.0.0.1:9")
    assert failed["name"] == "reachable"
    _, failed = failing(cluster, "--address", "https://prometheus.invalid.svc:9090")
    assert "port-forward" in failed["advice"]


def configuration(cluster: LocalCluster, path: Path, plugin: str, **load: Any) -> Path:
    provider = {"type": "Prometheus", "address": cluster.prometheus_url}
    options = {
        "tokenFile": "/var/run/secrets/secondary-scheduler/metrics/token",
        "caFile": str(cluster.prometheus_ca_file),
        **load,
    }
    profile = {
        "schedulerName": "s",
        "plugins": {"score": {"enabled": [{"name": plugin}]}},
        "pluginConfig": [
            {"name": plugin, "args": {"metricProvider": provider}},
            {"name": "SecondarySchedulerOptions", "args": {"load": options}},
        ],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_missing_series_are_reported_with_existing_ones(cluster: LocalCluster, tmp_path: Path) -> None:
    queries = {"cpuAverage": "avg_over_time(renamed:rule[$window])", "memoryStddev": "stddev_over_time(gone[$window])"}
    config = configuration(cluster, tmp_path / "config.yaml", "TargetLoadPacking", queries=queries)
    done = run(cluster, "--config", config, *token(cluster), "-o", "json")
    assert done.code == 1
    results = checks(done)
    assert results["series cpuAverage"]["status"] == "failed"
    assert (
        "load.queries.cpuAverage: avg_over_time(instance:node_cpu:ratio[$window])"
        in (results["series cpuAverage"]["advice"])
    )
    assert results["series memoryStddev"]["status"] == "warning", "TargetLoadPacking does without"
    config = configuration(cluster, tmp_path / "config.yaml", "LoadVariationRiskBalancing", queries=queries)
    assert (
        checks(run(cluster, "--config", config, *token(cluster), "-o", "json"))["series memoryStddev"]["status"]
        == "failed"
    )


def test_the_queries_of_the_guide_for_a_plain_node_exporter_work(cluster: LocalCluster, tmp_path: Path) -> None:
    guide = (CHECKOUT / "docs" / "load.md").read_text()
    block = next(part for part in guide.split("```yaml")[1:] if "without recording rules" in part).split("```")[0]
    queries = list(yaml.safe_load_all(block))[1]["load"]["queries"]
    config = configuration(cluster, tmp_path / "config.yaml", "LowRiskOverCommitment", queries=queries, window="1m")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (done := run(cluster, "--config", config, *token(cluster), "-o", "json")).code:
        assert time.monotonic() < deadline, done.out
        time.sleep(2)
    assert {check["status"] for check in checks(done).values()} == {"ok"}


def test_a_label_that_names_no_node_is_reported_with_the_right_label(cluster: LocalCluster, tmp_path: Path) -> None:
    config = configuration(cluster, tmp_path / "config.yaml", "TargetLoadPacking", nodeLabel="job")
    _, failed = failing(cluster, "--config", config, *token(cluster))
    assert failed["name"] == "labels"
    assert failed["advice"] == "set load.nodeLabel: instance"


def test_a_node_without_load_is_named_unless_it_does_not_matter(cluster: LocalCluster) -> None:
    core = kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(cluster.kubeconfig)))
    core.create_node({"metadata": {"name": "unmonitored"}})
    try:
        _, failed = failing(cluster, *source(cluster))
        assert failed["name"] == "nodes"
        assert "3 of 4" in failed["found"]
        assert "unmonitored" in failed["found"]
        without = run(cluster, *source(cluster), *SIMULATED)
        assert without.code == 0, without.out
        assert run(cluster, *source(cluster), "--selector", "a=(").code == 2
    finally:
        core.delete_node("unmonitored")


def test_samples_that_are_too_old_are_reported(cluster: LocalCluster, tmp_path: Path) -> None:
    past = "max_over_time(timestamp(instance:node_cpu:ratio)[$window:15s]) - 3600"
    config = configuration(cluster, tmp_path / "config.yaml", "TargetLoadPacking", queries={"sampleTime": past})
    _, failed = failing(cluster, "--config", config, *token(cluster))
    assert failed["name"] == "ages"
    assert "oldest 36" in failed["found"]


def test_a_stack_file_is_checked_with_its_own_credentials_and_written_with_its_comments(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    variables = environment.variables(cluster.layout, cluster.prometheus_url, os.environ)
    stack = CHECKOUT / "stacks" / "Pulumi.local.yaml"
    done = run(cluster, "--config", stack, "-o", "json", env=variables)
    assert done.code == 0, done.out + done.err
    assert cluster.prometheus_token_file.read_text().strip() not in done.out + done.err

    unset = run(cluster, "--config", stack)
    assert unset.code == 1
    assert "SECONDARY_SCHEDULER_PROMETHEUS_URL" in unset.err

    mine = tmp_path / "Pulumi.mine.yaml"
    before = stack.read_text()
    mine.write_text(before)
    assert run(cluster, *source(cluster), "--write", mine).code == 0
    changed = [
        (old, new) for old, new in zip(before.splitlines(), mine.read_text().splitlines(), strict=True) if old != new
    ]
    assert [new.strip() for _, new in changed] == [f"address: {cluster.prometheus_url}"]
    failed = run(cluster, "--address", "https://127.0.0.1:9", "--write", mine)
    assert failed.code == 1
    assert "not changed" in failed.err


ROUTE_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "routes.route.openshift.io"},
    "spec": {
        "group": "route.openshift.io",
        "scope": "Namespaced",
        "names": {"kind": "Route", "plural": "routes", "singular": "route", "listKind": "RouteList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def the_route_is_written(cluster: LocalCluster, prod: Path, mine: Path, token: tuple[str, str]) -> None:
    """Into a stack that says nothing yet, once; an address of its own, which pods reach, is kept."""
    before = prod.read_text()
    without = [line for line in before.splitlines() if "thanos-querier.openshift-monitoring" not in line]
    mine.write_text("\n".join(without) + "\n")
    invalid = run_command("validate", mine)
    assert invalid.code == 4, invalid.out + invalid.err
    assert "metricProvider" in invalid.out + invalid.err, "it cannot be previewed without an address"
    first = run(cluster, *token, *SIMULATED, "--write", mine)
    assert first.code == 0, first.out + first.err
    assert f"metricProvider.address is now {cluster.prometheus_url}" in first.err
    assert "trusts only services of the cluster" in first.err
    written = mine.read_text()
    assert [line for line in written.splitlines() if line not in without] == [f"    address: {cluster.prometheus_url}"]
    assert written.count("#") == "\n".join(without).count("#"), "comments are kept"
    again = run(cluster, *token, *SIMULATED, "--write", mine)
    assert (again.code, mine.read_text()) == (0, written)
    assert f"was already {cluster.prometheus_url}" in again.err
    valid = run_command("validate", mine)
    assert valid.code == 0, valid.out + valid.err
    mine.write_text(before)
    kept = run(cluster, "--config", mine, *token, *SIMULATED, "--write", mine)
    assert (kept.code, mine.read_text()) == (0, before), kept.err


def test_on_openshift_the_route_is_found_and_a_bound_token_used(cluster: LocalCluster, tmp_path: Path) -> None:
    """The Route CRD makes the API server look like OpenShift's; the route leads to the local Prometheus, which does not
    know the cluster's tokens, so that it must be the one refusing."""
    api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
    core, custom = kubernetes.CoreV1Api(api), kubernetes.CustomObjectsApi(api)
    extensions = kubernetes.ApiextensionsV1Api(api)
    nothing = run(cluster)
    assert nothing.code == 2
    assert "--address" in nothing.err
    extensions.create_custom_resource_definition(ROUTE_CRD)
    try:
        for name in ("openshift-monitoring", "openshift-config-managed"):
            core.create_namespace({"metadata": {"name": name}})
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "nothing to check" in (done := run(cluster, "-o", "json")).err or done.code != 1:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert checks(done)["route"]["status"] == "failed"
        assert "thanos-querier" in checks(done)["route"]["found"]

        host = cluster.prometheus_url.removeprefix("https://")
        route = {
            "apiVersion": "route.openshift.io/v1",
            "kind": "Route",
            "metadata": {"name": "thanos-querier"},
            "spec": {"host": host, "path": "/api", "tls": {"termination": "reencrypt"}},
            "status": {"ingress": [{"host": host, "conditions": [{"type": "Admitted", "status": "True"}]}]},
        }
        custom.create_namespaced_custom_object("route.openshift.io", "v1", "openshift-monitoring", "routes", route)
        authority = {"ca-bundle.crt": cluster.prometheus_ca_file.read_text()}
        core.create_namespaced_config_map(
            "openshift-config-managed", {"metadata": {"name": "default-ingress-cert"}, "data": authority}
        )
        results, failed = failing(cluster)
        assert failed["name"] == "account"
        assert "--service-account" in failed["advice"]
        assert cluster.prometheus_url in results["route"]["found"]

        core.create_namespaced_service_account("openshift-monitoring", {"metadata": {"name": "prometheus-k8s"}})
        results, failed = failing(cluster)
        assert "openshift-monitoring/prometheus-k8s" in results["account"]["found"]
        assert results["TLS"]["status"] == "ok", "by the CA of the ingress, which the cluster gave"
        assert failed["name"] == "token", "the local Prometheus has a token of its own"

        # With that one, all is well, and the prod stack's inside address is asked through the route.
        shown = token(cluster)
        done = run(cluster, *shown, "-o", "json", *SIMULATED)
        assert done.code == 0, done.out
        stack = CHECKOUT / "stacks" / "Pulumi.openshift-prod.yaml"
        done = run(cluster, "--config", stack, *shown, "-o", "json", *SIMULATED)
        assert done.code == 0, done.out + done.err
        assert "only reachable inside the cluster" in checks(done)["route"]["found"]
        (tmp_path / "Pulumi.yaml").write_text((CHECKOUT / "Pulumi.yaml").read_text())
        (tmp_path / "stacks").mkdir()
        the_route_is_written(cluster, stack, tmp_path / "stacks" / "Pulumi.mine.yaml", shown)
    finally:
        extensions.delete_custom_resource_definition("routes.route.openshift.io")
