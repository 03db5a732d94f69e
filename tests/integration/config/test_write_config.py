"""The real kube-scheduler and ours complete the same configurations to the same result: `--write-config-to` of both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from devcluster import ports
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.config import ConfigurationError, completed, load_configuration
from tests.support.minors import built_or_skip

pytestmark = pytest.mark.integration
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

CASES = {
    "no profile's fields": "profiles: [{schedulerName: mine}]",
    "every top-level field": """
parallelism: 4
leaderElection: {leaderElect: true, leaseDuration: 1m30s, renewDeadline: 500ms, retryPeriod: 100ms, resourceName: a}
clientConnection: {kubeconfig: "", qps: 5.5, burst: 7, contentType: application/json}
enableProfiling: true
enableContentionProfiling: false
percentageOfNodesToScore: 70
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
delayCacheUntilActive: true
profiles: [{schedulerName: mine, percentageOfNodesToScore: 50}]
""",
    "zeros and no profiling": """
clientConnection: {qps: 0, burst: 0, contentType: ""}
leaderElection: {resourceName: "", resourceNamespace: "", resourceLock: "", leaseDuration: 0s}
enableProfiling: false
profiles: [{schedulerName: mine}]
""",
    "sets at points": """
profiles:
- schedulerName: mine
  plugins:
    multiPoint: {disabled: [{name: NodeName}, {name: ImageLocality}]}
    preFilter: {enabled: [{name: NodeAffinity}]}
    filter: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}
    score: {enabled: [{name: NodeAffinity}, {name: NodeResourcesFit, weight: 3}], disabled: [{name: PodTopologySpread}]}
""",
    "multiPoint replaced, emptied and re-ordered": """
profiles:
- schedulerName: a
  plugins: {multiPoint: {enabled: [{name: NodeResourcesFit, weight: 9}, {name: VolumeBinding, weight: 3}]}}
- schedulerName: b
  plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}
- schedulerName: c
  plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}], enabled: [{name: NodeResourcesFit}]}}
""",
    "args of every plugin": """
profiles:
- schedulerName: mine
  pluginConfig:
  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 20}}
  - {name: DynamicResources, args: {filterTimeout: 3s}}
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 7, ignorePreferredTermsOfExistingPods: true}}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 5, preference: {matchExpressions: [{key: ssd, operator: Exists}]}}
  - {name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 1}]}}
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/foo]
      ignoredResourceGroups: [example.org]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu}, {name: memory, weight: 3}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 5}}
""",
    "extenders": """
profiles: [{schedulerName: mine}]
extenders:
- {urlPrefix: "http://127.0.0.1:2", filterVerb: filter}
- {urlPrefix: "http://127.0.0.1:3", filterVerb: filter, httpTimeout: 0s, nodeCacheCapable: false, ignorable: true}
- urlPrefix: https://gpu.example.com
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  bindVerb: bind
  weight: 5
  enableHTTPS: true
  httpTimeout: 1m30s
  nodeCacheCapable: true
  managedResources: [{name: gpu.example.com/cores, ignoredByScheduler: true}, {name: gpu.example.com/memory}]
  tlsConfig: {insecure: true, serverName: gpu}
""",
    "args of what does not run": """
profiles:
- schedulerName: mine
  plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}, filter: {disabled: [{name: VolumeBinding}]}}
  pluginConfig:
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 7}}
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 5}}
""",
    "a strategy without resources": """
profiles:
- schedulerName: mine
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}
  - {name: NodeResourcesBalancedAllocation, args: {resources: []}}
""",
}
REFUSED = {
    "unknown field": "parallelizm: 3\nprofiles: [{schedulerName: mine}]",
    "wrong case": "profiles: [{schedulername: mine}]",
    "parallelism": "parallelism: 0\nprofiles: [{schedulerName: mine}]",
    "duplicate profile": "profiles: [{schedulerName: a}, {schedulerName: a}]",
    "nameless profile": "profiles: [{schedulerName: a}, {}]",
    "unknown plugin": "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: Nope}]}}}]",
    "wrong point": "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: NodeName}]}}}]",
    "no sorter": "profiles: [{schedulerName: a, plugins: {queueSort: {disabled: [{name: '*'}]}}}]",
    "no binder": "profiles: [{schedulerName: a, plugins: {bind: {disabled: [{name: '*'}]}}}]",
    "removed plugin": "profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
    "bad args": "profiles: [{schedulerName: a, pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}]}]",
    "lease": "leaderElection: {leaderElect: true, leaseDuration: 5s}\nprofiles: [{schedulerName: a}]",
    "old version": None,
}


@pytest.fixture(scope="module")
def upstream() -> Path:
    return binaries.ensure(["kube-scheduler"], SilentReporter())["kube-scheduler"]


def upstream_output(upstream: Path, directory: Path, text: str, *more: str) -> tuple[int, str]:
    """Exit code, and the written configuration or the error output."""
    source, target = directory / "in.yaml", directory / "theirs.yaml"
    source.write_text(text)
    # It takes its port even where all it does is to write a file.
    port = ports.allocate(["kube-scheduler"], {})["kube-scheduler"]
    flags = ["--config", str(source), "--write-config-to", str(target), "--master", "http://127.0.0.1:1"]
    flags += ["--bind-address", ports.LOOPBACK, "--secure-port", str(port)]
    finished = subprocess.run([str(upstream), *flags, *more], capture_output=True, text=True, timeout=60, check=False)
    return finished.returncode, target.read_text() if target.exists() else finished.stderr


def our_output(text: str) -> str:
    return completed(load_configuration(text, source="in.yaml"))


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_a_configuration_is_completed_as_upstream_completes_it_and_reads_it_back(
    upstream: Path, tmp_path: Path, body: str
) -> None:
    code, expected = upstream_output(upstream, tmp_path, HEAD + body)
    assert code == 0, expected
    written = our_output(HEAD + body)
    assert yaml.safe_load(written) == yaml.safe_load(expected)
    (tmp_path / "theirs.yaml").unlink()
    assert upstream_output(upstream, tmp_path, written) == (0, expected)


@pytest.mark.slow
@pytest.mark.parametrize("body", [CASES["no profile's fields"], CASES["sets at points"]], ids=["plain", "sets"])
@pytest.mark.parametrize("minor", [37, 38])
def test_a_configuration_that_a_newer_version_completed_means_what_it_meant(
    tmp_path: Path, minor: int, body: str
) -> None:
    newer = built_or_skip(f"1.{minor}", "kube-scheduler")["kube-scheduler"]
    code, text = upstream_output(newer, tmp_path, HEAD + body)
    assert code == 0, text
    assert "placementGenerate: {}" in text
    whole = load_configuration(text, source="completed", cluster_minor=minor)
    short = load_configuration(HEAD + body, source="short", cluster_minor=minor)
    assert yaml.safe_load(completed(short)) == yaml.safe_load(text)
    assert whole.profiles[0].points == short.profiles[0].points
    assert whole.profiles[0].plugin_args == short.profiles[0].plugin_args


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_a_configuration_that_upstream_refuses_is_refused(upstream: Path, tmp_path: Path, body: str | None) -> None:
    old = HEAD.replace("/v1\n", "/v1alpha2\n") + "profiles: [{schedulerName: a}]"
    text = old if body is None else HEAD + body
    assert upstream_output(upstream, tmp_path, text)[0] == 1
    with pytest.raises(ConfigurationError):
        our_output(text)


def test_the_daemon_writes_it_and_ends_without_asking_an_api_server(upstream: Path, tmp_path: Path) -> None:
    text = HEAD + CASES["sets at points"]
    source, target = tmp_path / "in.yaml", tmp_path / "ours.yaml"
    source.write_text(text)
    command = [sys.executable, "-m", "scheduler", "--config", str(source), "--write-config-to", str(target)]
    flags = ["--leader-elect=false", "--leader-elect-resource-name=other"]
    finished = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    expected = yaml.safe_load(upstream_output(upstream, tmp_path, text, *flags)[1])
    assert yaml.safe_load(target.read_text()) == expected
