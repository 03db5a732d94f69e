# ruff: noqa: E501 -- a table with a configuration to a line
"""scheduler-plugins 0.34.7 and what `validate --image` knows of it: the same configurations are refused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from devcluster import ports
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.config import ConfigurationError, load_configuration

pytestmark = pytest.mark.integration

PROFILE = "profiles:\n- schedulerName: one\n"
COSCHEDULING = (
    "queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: '*'}]}, permit: {enabled: [{name: Coscheduling}]}"
)


def enabled(point: str, plugin: str) -> str:
    return f"{PROFILE}  plugins: {{{point}: {{enabled: [{{name: {plugin}}}]}}}}\n"


def args(plugin: str, content: str, plugins: str = "") -> str:
    return f"{PROFILE}  plugins: {{{plugins}}}\n  pluginConfig: [{{name: {plugin}, args: {content}}}]\n"


NRT = "score: {enabled: [{name: NodeResourceTopologyMatch}]}"
CASES = {
    "plain": PROFILE,
    "podGroupRejectPercentage": args("Coscheduling", "{podGroupRejectPercentage: 50}", COSCHEDULING),
    "deniedPGExpirationTimeSeconds": args("Coscheduling", "{deniedPGExpirationTimeSeconds: 5}", COSCHEDULING),
    "Coscheduling at postBind": enabled("postBind", "Coscheduling"),
    "resyncScope": args("NodeResourceTopologyMatch", "{cache: {resyncScope: All}}", NRT),
    "preemptionMode": args("NodeResourceTopologyMatch", "{preemptionMode: Enabled}", NRT),
    "NodeResourceTopologyMatch at preFilter": enabled("preFilter", "NodeResourceTopologyMatch"),
    "NodeResourceTopologyMatch at postBind": enabled("postBind", "NodeResourceTopologyMatch"),
    "filterTimeout": args("DynamicResources", "{filterTimeout: 5s}"),
    "bindingTimeout": args("DynamicResources", "{bindingTimeout: 5s}"),
    "DynamicResources at score": enabled("score", "DynamicResources"),
    "DynamicResources at postBind": enabled("postBind", "DynamicResources"),
    "DefaultPreemption at preEnqueue": enabled("preEnqueue", "DefaultPreemption"),
    "EBSLimits": enabled("filter", "EBSLimits"),
    "SelectorSpread": enabled("score", "SelectorSpread"),
    "NodeMetadata": enabled("score", "NodeMetadata"),
    "CrossNodePreemption": enabled("postFilter", "CrossNodePreemption"),
    "GangScheduling": enabled("permit", "GangScheduling"),
    "HighLoadFilter": enabled("filter", "HighLoadFilter"),
    "delayCacheUntilActive": f"delayCacheUntilActive: true\n{PROFILE}",
    "placementGenerate": f"{PROFILE}  plugins: {{placementGenerate: {{}}}}\n",
    "healthzBindAddress": f"healthzBindAddress: ''\n{PROFILE}",
    "constraints without their type": args("PodTopologySpread", "{defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}"),
    "an infinite rate": f"clientConnection: {{qps: .inf}}\n{PROFILE}",
    "no number": args("LoadVariationRiskBalancing", "{safeVarianceMargin: .nan, watcherAddress: 'http://127.0.0.1:1'}", "score: {enabled: [{name: LoadVariationRiskBalancing}]}"),
}  # fmt: skip
_REFUSES = re.compile(
    r"strict decoding error|does not exist|does not extend|invalid in version|unsupported value|Invalid value|Forbidden"
)
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: nobody
clusters: [{name: nobody, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
users: [{name: nobody, user: {}}]
"""


@pytest.fixture(scope="module")
def binary() -> Path:
    return binaries.ensure(["scheduler-plugins"], SilentReporter())["scheduler-plugins"]


@pytest.mark.parametrize("name", CASES)
def test_the_binary_and_the_table_refuse_the_same(binary: Path, tmp_path: Path, name: str) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    text = f"{head}leaderElection: {{leaderElect: false}}\n{CASES[name]}"
    logged = _logged_by(binary, tmp_path, text)
    problems = _found_in(text)
    assert bool(_REFUSES.search(logged)) == bool(problems), f"{problems}; the binary: {logged[-1000:]}"


def _found_in(text: str) -> str:
    try:
        load_configuration(text, source="f", flavour="scheduler-plugins@0.34.7", external_load=True)
    except ConfigurationError as error:
        return str(error)
    return ""


def _logged_by(binary: Path, directory: Path, text: str) -> str:
    """What the binary logs until it ends, or asks an API server that does not answer."""
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
                if "connection refused" in line:
                    break
        finally:
            process.kill()
    return logged
