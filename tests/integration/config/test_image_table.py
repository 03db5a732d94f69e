# ruff: noqa: E501 -- a table with a configuration to a line
"""Releases of scheduler-plugins and what `validate --image` knows of them: the same configurations are refused.

Those that the toolchain does not build are tested as well where they are named, such as
`IMAGE_TABLE_BINARIES=0.29.8=/path/to/kube-scheduler,0.33.5=/path/to/another`.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import ports
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.config import ConfigurationError, load_configuration

pytestmark = pytest.mark.integration

BUILT = {"0.34.7": "scheduler-plugins", "0.35.4-devel": "scheduler-plugins-0.35"}
NAMED = dict(each.split("=", 1) for each in os.environ.get("IMAGE_TABLE_BINARIES", "").split(",") if each)
RELEASES = ["0.34.7", pytest.param("0.35.4-devel", marks=pytest.mark.slow), *NAMED]

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PROFILE = "profiles:\n- schedulerName: one\n"
COSCHEDULING = (
    "queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: '*'}]}, permit: {enabled: [{name: Coscheduling}]}"
)
NRT = "score: {enabled: [{name: NodeResourceTopologyMatch}]}"
WATCHER = "watcherAddress: 'http://127.0.0.1:1'"
CONSTRAINT = "{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [b]}"


def enabled(point: str, plugin: str) -> str:
    return f"{PROFILE}  plugins: {{{point}: {{enabled: [{{name: {plugin}}}]}}}}\n"


def args(plugin: str, content: str, plugins: str = "") -> str:
    return f"{PROFILE}  plugins: {{{plugins}}}\n  pluginConfig: [{{name: {plugin}, args: {content}}}]\n"


def scoring(plugin: str, content: str) -> str:
    return args(plugin, content, f"score: {{enabled: [{{name: {plugin}}}]}}")


CASES = {
    "plain": PROFILE,
    "apiVersion v1beta3": PROFILE,
    "Coscheduling: podGroupBackoffSeconds": args("Coscheduling", "{podGroupBackoffSeconds: 5}", COSCHEDULING),
    "Coscheduling: podGroupRejectPercentage": args("Coscheduling", "{podGroupRejectPercentage: 50}", COSCHEDULING),
    "Coscheduling: deniedPGExpirationTimeSeconds": args("Coscheduling", "{deniedPGExpirationTimeSeconds: 5}", COSCHEDULING),
    "Coscheduling at postBind": enabled("postBind", "Coscheduling"),
    "NodeResourceTopologyMatch: LeastNUMANodes": args("NodeResourceTopologyMatch", "{scoringStrategy: {type: LeastNUMANodes}}", NRT),
    "NodeResourceTopologyMatch: cache.informerMode": args("NodeResourceTopologyMatch", "{cache: {informerMode: Shared}}", NRT),
    "NodeResourceTopologyMatch: cache.resyncScope": args("NodeResourceTopologyMatch", "{cache: {resyncScope: All}}", NRT),
    "NodeResourceTopologyMatch: preemptionMode": args("NodeResourceTopologyMatch", "{preemptionMode: Enabled}", NRT),
    "NodeResourceTopologyMatch at preFilter": enabled("preFilter", "NodeResourceTopologyMatch"),
    "NodeResourceTopologyMatch at reserve": enabled("reserve", "NodeResourceTopologyMatch"),
    "NodeResourceTopologyMatch at postBind": enabled("postBind", "NodeResourceTopologyMatch"),
    "TargetLoadPacking: insecureSkipVerify": scoring("TargetLoadPacking", "{metricProvider: {type: Prometheus, address: 'http://127.0.0.1:1', insecureSkipVerify: true}}"),
    "LowRiskOverCommitment": args("LowRiskOverCommitment", f"{{smoothingWindowSize: 3, {WATCHER}}}", "preScore: {enabled: [{name: LowRiskOverCommitment}]}, score: {enabled: [{name: LowRiskOverCommitment}]}"),
    "LoadVariationRiskBalancing: .nan": scoring("LoadVariationRiskBalancing", f"{{safeVarianceMargin: .nan, {WATCHER}}}"),
    "NetworkOverhead": args("NetworkOverhead", "{weightsName: a}", "filter: {enabled: [{name: NetworkOverhead}]}"),
    "Peaks": scoring("Peaks", "{WatcherAddress: 'http://127.0.0.1:1'}"),
    "SySched": scoring("SySched", "{defaultProfileName: a}"),
    "NodeMetadata": enabled("score", "NodeMetadata"),
    "CrossNodePreemption": enabled("postFilter", "CrossNodePreemption"),
    "HighLoadFilter": enabled("filter", "HighLoadFilter"),
    "DynamicResources: filterTimeout": args("DynamicResources", "{filterTimeout: 5s}"),
    "DynamicResources: bindingTimeout": args("DynamicResources", "{bindingTimeout: 5s}"),
    "DynamicResources at preScore": enabled("preScore", "DynamicResources"),
    "DynamicResources at score": enabled("score", "DynamicResources"),
    "DynamicResources at preBind": enabled("preBind", "DynamicResources"),
    "DynamicResources at postBind": enabled("postBind", "DynamicResources"),
    "DefaultPreemption at preEnqueue": enabled("preEnqueue", "DefaultPreemption"),
    "VolumeBinding at preScore": enabled("preScore", "VolumeBinding"),
    "VolumeBinding: shape": args("VolumeBinding", "{shape: [{utilization: 0, score: 1}]}"),
    "InterPodAffinity: ignorePreferredTermsOfExistingPods": args("InterPodAffinity", "{ignorePreferredTermsOfExistingPods: true}"),
    "PodTopologySpread: matchLabelKeys": args("PodTopologySpread", f"{{defaultingType: List, defaultConstraints: [{CONSTRAINT}]}}"),
    "PodTopologySpread: constraints without their type": args("PodTopologySpread", "{defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}"),
    "EBSLimits": enabled("filter", "EBSLimits"),
    "CinderLimits": enabled("filter", "CinderLimits"),
    "SelectorSpread": enabled("score", "SelectorSpread"),
    "GangScheduling at permit": enabled("permit", "GangScheduling"),
    "GangScheduling at reserve": enabled("reserve", "GangScheduling"),
    "NodeDeclaredFeatures": enabled("filter", "NodeDeclaredFeatures"),
    "delayCacheUntilActive": f"delayCacheUntilActive: true\n{PROFILE}",
    "percentageOfNodesToScore of a profile": f"{PROFILE}  percentageOfNodesToScore: 50\n",
    "preEnqueue": f"{PROFILE}  plugins: {{preEnqueue: {{disabled: [{{name: SchedulingGates}}]}}}}\n",
    "placementGenerate": f"{PROFILE}  plugins: {{placementGenerate: {{}}}}\n",
    "healthzBindAddress": f"healthzBindAddress: ''\n{PROFILE}",
    "qps: .inf": f"clientConnection: {{qps: .inf}}\n{PROFILE}",
}  # fmt: skip
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: nobody
clusters: [{name: nobody, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
users: [{name: nobody, user: {}}]
"""
_REFUSED = '"command failed"'
_STARTED = "Starting Kubernetes Scheduler"
_ACCEPTED = (_STARTED, "connection refused")
"""Said once all plugins are there; a plugin may ask the API server before that."""


def text_of(name: str) -> str:
    """The configuration of a case."""
    head = HEAD.replace("/v1\n", "/v1beta3\n") if name == "apiVersion v1beta3" else HEAD
    return f"{head}leaderElection: {{leaderElect: false}}\n{CASES[name]}"


def problems_of(name: str, release: str) -> str:
    """What `validate --image` says of a case; empty where it is valid."""
    try:
        load_configuration(text_of(name), source="f", flavour=f"scheduler-plugins@{release}", external_load=True)
    except ConfigurationError as error:
        return str(error)
    return ""


def goes_with_others(name: str) -> bool:
    """Whether a case can be a profile among those of others: all share the apiVersion and the plugin that sorts the
    queue, and one whose plugin asks for load at its start says so before the profiles behind it are judged."""
    return text_of(name).startswith(HEAD) and not any(text in CASES[name] for text in (COSCHEDULING, "http://"))


@functools.cache
def accepts_together(release: str) -> bool:
    """Whether the binary accepts the cases that go with others, and that the table accepts, as profiles of one
    configuration. One start instead of many; one profile that it refuses, and it does not start."""
    names = [name for name in CASES if goes_with_others(name) and not problems_of(name, release)]
    documents = [yaml.safe_load(text_of(name)) for name in names]
    profiles = [profile for document in documents for profile in document["profiles"]]
    merged: dict[str, Any] = {key: value for document in documents for key, value in document.items()}
    merged["profiles"] = [{**profile, "schedulerName": f"number-{number}"} for number, profile in enumerate(profiles)]
    with tempfile.TemporaryDirectory() as directory:
        return _STARTED in logged_by(binary_of(release), Path(directory), yaml.safe_dump(merged))


def logged_by(binary: Path, directory: Path, text: str) -> str:
    """What the binary logs until it ends, or goes on without a fault in its configuration."""
    config, kubeconfig = directory / "config.yaml", directory / "kubeconfig"
    config.write_text(text)
    kubeconfig.write_text(_KUBECONFIG)
    port = ports.allocate(["scheduler"], {})["scheduler"]
    command = [str(binary), f"--config={config}", f"--kubeconfig={kubeconfig}", "--master=http://127.0.0.1:1"]
    command += ["--bind-address=127.0.0.1", f"--secure-port={port}", "--authentication-skip-lookup"]
    logged = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                logged += line
                if any(text in line for text in _ACCEPTED):
                    break
        finally:
            process.kill()
    return logged


def refuses(logged: str) -> bool:
    """Whether it ended for its configuration."""
    accepted = any(text in logged for text in _ACCEPTED)
    assert accepted or _REFUSED in logged, logged[-1000:]
    return not accepted


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("release", RELEASES)
def test_the_binary_and_the_table_refuse_the_same(release: str, name: str, tmp_path: Path) -> None:
    problems = problems_of(name, release)
    if not problems and goes_with_others(name) and accepts_together(release):
        return
    logged = logged_by(binary_of(release), tmp_path, text_of(name))
    assert refuses(logged) == bool(problems), f"{problems}; the binary: {logged[-1000:]}"


def binary_of(release: str) -> Path:
    """A binary of a release."""
    if release in NAMED:
        return Path(NAMED[release])
    return binaries.ensure([BUILT[release]], SilentReporter())[BUILT[release]]
