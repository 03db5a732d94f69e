"""The command line beside that of the real kube-scheduler: its `--help` says which flags there are."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from devcluster import ports, releases
from devcluster.cluster import LocalCluster
from scheduler.observe import serving_context
from scheduler.options import parse_options
from tests.support.daemon import Cluster, configuration, daemon
from tests.support.minors import built_or_skip
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.integration
PAGE = (Path(__file__).parents[3] / "docs/flags.md").read_text(encoding="utf-8")
_FLAG = re.compile(r"^ {2,6}(?:-\w, )?--(?P<name>[a-z0-9-]+) ?(?P<kind>[A-Za-z]\S*)?(?: {2,}|$)", re.MULTILINE)
VALUES = {
    "bool": "true",
    "int": "1",
    "int32": "1",
    "float32": "1.5",
    "ip": "127.0.0.1",
    "duration": "7s",
    "Level": "3",
    "quantity": "1Ki",
    "pattern=N,...": "cycle=4",
    "namedCertKey": "a.crt,a.key",
    "stringToString": "m,l=v",
    "int32Slice": "29,23",
    "strings": "a,b",
    "mapStringBool": "SchedulerAsyncPreemption=true",
    "colonSeparatedMultimapStringString": "kube:SchedulerAsyncPreemption=true",
}
"""A value for each kind of flag."""
NAMED = {
    "tls-min-version": "VersionTLS13",
    "tls-cipher-suites": "TLS_AES_128_GCM_SHA256",
    "leader-elect-resource-lock": "leases",
    "logging-format": "json",
    "secure-port": "10259",
    "emulated-version": "1.33",
    "min-compatibility-version": "1.33",
}
PAIRED = {"tls-cert-file": "--tls-private-key-file=k", "tls-private-key-file": "--tls-cert-file=c"}
SINCE = {"min-compatibility-version", "tls-curve-preferences"}
"""Flags that came after 1.34."""
ENDING = {"help", "version"}


@pytest.fixture(scope="module")
def upstream() -> Path:
    """That of the default, also where another minor's control plane is asked for."""
    return built_or_skip(releases.DEFAULT, "kube-scheduler")["kube-scheduler"]


def help_of(binary: Path) -> str:
    return subprocess.run([str(binary), "--help"], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def help_text(upstream: Path) -> str:
    return help_of(upstream)


@pytest.fixture(scope="module")
def upstream_flags(help_text: str) -> dict[str, str]:
    """Those of the default, by name."""
    return flags_of(help_text)


@pytest.fixture(scope="module", params=releases.RELEASES)
def minors_flags(request: pytest.FixtureRequest) -> dict[str, str]:
    """Those of each minor whose kube-scheduler has been built."""
    return flags_of(help_of(built_or_skip(request.param, "kube-scheduler")["kube-scheduler"]))


def flags_of(help_text: str) -> dict[str, str]:
    """Name -> kind of value, `bool` where upstream names none."""
    flags = {match["name"]: match["kind"] or "bool" for match in _FLAG.finditer(help_text)}
    assert {"config", "leader-elect", "vmodule", "kube-api-qps", "v"} <= flags.keys()
    # Counted in another way, so that no line escapes the expression.
    assert len(flags) == sum(line.lstrip().startswith(("--", "-v, --", "-h, --")) for line in help_text.splitlines())
    return flags


def test_every_flag_of_every_minors_kube_scheduler_is_accepted(minors_flags: dict[str, str]) -> None:
    refused = []
    for name, kind in minors_flags.items():
        if name in ENDING:
            continue
        value = NAMED.get(name) or VALUES.get(kind, "something")
        try:
            parse_options([f"--{name}={value}", *filter(None, [PAIRED.get(name)])], "0")
        except SystemExit:
            refused.append(f"--{name}={value}")
    assert refused == []


def test_a_boolean_flag_of_upstream_needs_no_value(minors_flags: dict[str, str]) -> None:
    for name in (name for name, kind in minors_flags.items() if kind == "bool" and name not in ENDING):
        parse_options([f"--{name}"], "0")


def test_the_page_about_flags_has_those_of_upstream_and_ours_and_no_others(upstream_flags: dict[str, str]) -> None:
    listed = re.findall(r"^\| `--([a-z0-9-]+)`", PAGE, re.MULTILINE)
    assert len(listed) == len(set(listed))
    ours = subprocess.run([sys.executable, "-m", "scheduler", "--help"], capture_output=True, text=True, check=True)
    shown = set(re.findall(r"^ {2,6}--([a-z0-9-]+)", ours.stdout, re.MULTILINE))
    own = {"allow-default-scheduler-name", "allow-insecure-metric-credentials", "extender-recording"}
    own |= {"decision-history", "decision-details", "max-connections", "max-connections-per-address"}
    own |= {name for name in shown if name.startswith("metric-")}
    assert set(listed) == upstream_flags.keys() | SINCE | own


def test_the_page_says_which_flags_came_after_the_default(
    minors_flags: dict[str, str], upstream_flags: dict[str, str]
) -> None:
    assert minors_flags.keys() - upstream_flags.keys() <= SINCE


def test_every_cipher_suite_that_upstream_lists_is_known_and_every_preferred_one_served(help_text: str) -> None:
    preferred, insecure = (
        re.findall(r"TLS_[A-Z0-9_]+", re.search(rf"{kind} values: (.*)", help_text)[1])  # type: ignore[index]  # there
        for kind in ("Preferred", "Insecure")
    )
    assert len(preferred) > 10
    assert len(insecure) > 5
    for suites in ([*preferred, *insecure], *([suite] for suite in preferred)):
        options = parse_options([f"--tls-cipher-suites={','.join(suites)}"], "0")
        serving_context(None, None, minimum="VersionTLS12", suites=options.tls_cipher_suites)


def test_deprecated_flags_complete_the_configuration_as_upstream_does(upstream: Path, tmp_path: Path) -> None:
    flags = ["--kube-api-qps=12.5", "--kube-api-burst=34", "--kube-api-content-type=application/json"]
    flags += ["--profiling=false", "--contention-profiling=false", "--leader-elect-lease-duration=20s"]
    port = ports.allocate(["kube-scheduler"], {})["kube-scheduler"]
    theirs, ours = tmp_path / "theirs.yaml", tmp_path / "ours.yaml"
    serving = ["--bind-address", ports.LOOPBACK, "--secure-port", str(port), "--master=http://127.0.0.1:1"]
    subprocess.run([str(upstream), *flags, *serving, "--write-config-to", str(theirs)], check=True, timeout=60)
    named = ["--allow-default-scheduler-name", "--write-config-to", str(ours)]
    subprocess.run([sys.executable, "-m", "scheduler", *flags, *named], check=True, timeout=60)
    assert yaml.safe_load(ours.read_text()) == yaml.safe_load(theirs.read_text())


KUBEADM = """
apiVersion: v1
kind: Pod
metadata:
  labels: {component: kube-scheduler, tier: control-plane}
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
    - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
    - --bind-address=127.0.0.1
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    - --leader-elect=true
    image: example.com/kube-scheduler
    livenessProbe:
      httpGet: {host: 127.0.0.1, path: /livez, port: probe-port, scheme: HTTPS}
    name: kube-scheduler
    ports:
    - {containerPort: 10259, name: probe-port, protocol: TCP}
    readinessProbe:
      httpGet: {host: 127.0.0.1, path: /readyz, port: probe-port, scheme: HTTPS}
    startupProbe:
      httpGet: {host: 127.0.0.1, path: /livez, port: probe-port, scheme: HTTPS}
    volumeMounts:
    - {mountPath: /etc/kubernetes/scheduler.conf, name: kubeconfig, readOnly: true}
  hostNetwork: true
  volumes:
  - hostPath: {path: /etc/kubernetes/scheduler.conf, type: FileOrCreate}
    name: kubeconfig
"""
"""What kubeadm 1.34 writes to /etc/kubernetes/manifests/kube-scheduler.yaml, with another image; resources and the
probes' thresholds are left out."""


def passes(probe: dict[str, Any], port: int) -> bool:
    """Whether a probe of the manifest succeeds, asked as the kubelet does."""
    assert (probe["httpGet"]["scheme"], probe["httpGet"]["host"]) == ("HTTPS", "127.0.0.1")
    return answers(port, probe["httpGet"]["path"], None)


def answers(port: int, path: str, certificate: tuple[str, str] | None) -> bool:
    """Whether a path can be read, with a client certificate where there is one."""
    with contextlib.suppress(requests.ConnectionError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        url = f"https://127.0.0.1:{port}{path}"
        return requests.get(url, verify=False, timeout=5, cert=certificate).status_code == 200
    return False


def test_kubeadms_static_pod_starts_with_our_image_and_places_pods(control_plane: LocalCluster, tmp_path: Path) -> None:
    (container,) = yaml.safe_load(KUBEADM)["spec"]["containers"]
    # The user system:kube-scheduler, with the rights that every cluster gives it.
    kubeconfig = control_plane.state_dir / "config/kube-scheduler.kubeconfig"
    flags = [flag.replace("/etc/kubernetes/scheduler.conf", str(kubeconfig)) for flag in container["command"][1:]]
    # On a machine of its own it has the port of the manifest.
    port = ports.allocate(["kubeadm"], {})["kubeadm"]
    log = tmp_path / "daemon.log"
    arguments = [sys.executable, "-m", "scheduler", *flags, f"--secure-port={port}", "--logging-format=json"]
    cluster = Cluster(control_plane.kubeconfig, "kubeadm")
    with log.open("wb") as output, subprocess.Popen(arguments, stdout=output, stderr=output) as process:
        try:
            for name in ("startupProbe", "livenessProbe", "readinessProbe"):
                eventually(lambda name=name: passes(container[name], port), f"{name} succeeds", diagnosis=log.read_text)
            cluster.place("default-scheduler")
            pki = control_plane.state_dir / "pki"
            administrator = str(pki / "admin.crt"), str(pki / "admin.key")
            # Who signs such certificates is read from the cluster beside the first attempts.
            eventually(lambda: answers(port, "/metrics", administrator), "the certificate of an administrator counts")
            assert not answers(port, "/metrics", None)
            assert process.poll() is None
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
            cluster.remove()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert "this process takes the place of the cluster's own kube-scheduler" in {line["event"] for line in lines}
    assert not [line for line in lines if line["event"] == "flag has no effect"]
    assert not [line for line in lines if "cannot be read" in line["event"]], "who signs client certificates is read"


def test_an_older_api_server_answers_as_before_if_managed_fields_are_not_wanted(
    control_plane: LocalCluster, tmp_path: Path
) -> None:
    cluster = Cluster(control_plane.kubeconfig, "opted-out")
    try:
        flag = "--feature-gates=ManagedFieldsOptOutClient=true"
        with daemon(tmp_path, configuration(control_plane.kubeconfig, "opted-out"), flag) as running:
            cluster.place("opted-out")
            assert not running.records("flag has no effect")
    finally:
        cluster.remove()
