"""The daemon's command line: bad input is one line per mistake and a documented exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.app import run
from scheduler.config import default_configuration
from scheduler.options import parse_options

GOOD = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: secondary-scheduler
"""
OPERATOR_FLAGS = [
    "--config=/etc/kubernetes/config.yaml",
    "--tls-cert-file=/certs-dir/tls.crt",
    "--tls-private-key-file=/certs-dir/tls.key",
    "--leader-elect=true",
    "--leader-elect-lease-duration=137s",
    "--leader-elect-renew-deadline=107s",
    "--leader-elect-resource-lock=leases",
    "--leader-elect-resource-name=secondary-scheduler",
    "--leader-elect-resource-namespace=ns",
    "--leader-elect-retry-period=26s",
    "-v=2",
    "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384",
    "--tls-min-version=VersionTLS12",
    "--bind-address=127.1.2.3",
]


def test_the_flags_that_upstreams_operator_passes_are_taken() -> None:
    options = parse_options(OPERATOR_FLAGS, "0")
    election = options.leader_election(default_configuration(allow_default_scheduler_name=True).model)
    assert election.enabled
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (137, 107, 26)
    assert (election.name, election.namespace) == ("secondary-scheduler", "ns")
    assert options.verbosity == 2
    assert options.bind_address == "127.1.2.3"


def test_a_flag_that_was_not_given_leaves_the_file_its_say() -> None:
    election = parse_options([], "0").leader_election(default_configuration(allow_default_scheduler_name=True).model)
    assert (election.name, election.namespace) == ("kube-scheduler", "kube-system")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--leader-elect-lease-duration=15"], "duration"),
        (["--secure-port=99999"], "no port"),
        (["--leader-elect=perhaps"], "no boolean"),
        (["--no-such-flag"], "unrecognized"),
        (["positional"], "unrecognized"),
        (["--tls-cert-file=x"], "go together"),
        (["--feature-gates=X=perhaps"], "no feature gate"),
        (["--authorization-always-allow-paths=/a*b"], "only trailing * allowed"),
        (["--feature-gates=other:X=true"], "not registered"),
        (["--kube-api-qps=many"], "invalid float"),
    ],
)
def test_bad_usage_exits_with_two(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(arguments)
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


def test_a_configuration_that_cannot_be_parsed_is_named_with_line_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(GOOD + "    plugins:\n      score:\n        enabled:\n          - name: NoSuchPlugin\n")
    assert run([f"--config={config}"]) == 4
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[0].startswith(f"{config}:8:")
    assert "profiles[0].plugins.score.enabled[0]" in lines[0]
    assert "NoSuchPlugin" in lines[0]


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([f"--config={tmp_path / 'absent.yaml'}"]) == 1
    assert (
        capsys.readouterr().err == f"kube-scheduler: --config {tmp_path / 'absent.yaml'}: No such file or directory\n"
    )


def test_without_a_name_of_its_own_it_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 4
    assert "default-scheduler" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [
        (["--client-ca-file=/ca.crt", "--authentication-skip-lookup"], []),
        (["--requestheader-client-ca-file=/ca.crt"], ["--requestheader-client-ca-file"]),
        (["--profiling=false", "--contention-profiling=false", "--disable-http2-serving"], []),
        (["--profiling", "--contention-profiling"], ["--contention-profiling"]),
        (["--config=c.yaml", "--profiling=false"], ["--profiling"]),
        (["--config=c.yaml", "--kube-api-qps=5", "--kubeconfig=k"], ["--kubeconfig", "--kube-api-qps"]),
        (["--kube-api-qps=5", "--kube-api-burst=7", "--kube-api-content-type=application/json"], []),
        (["--kube-api-content-type=application/vnd.kubernetes.protobuf"], ["--kube-api-content-type"]),
        (["--feature-gates=SchedulerQueueingHints=true,kube:SchedulerPopFromBackoffQ=false"], []),
        (["--feature-gates=SchedulerAsyncPreemption=false"], ["--feature-gates SchedulerAsyncPreemption=false"]),
        (["--feature-gates=GracefulNodeShutdown=true"], ["--feature-gates GracefulNodeShutdown=true"]),
        (["--feature-gates=ComponentStatusz=true,ComponentFlagz=false,AllAlpha=false"], []),
        (["--feature-gates=StorageCapacityScoring=true"], ["--feature-gates StorageCapacityScoring=true"]),
        (["--emulated-version=1.35", "--log_flush_frequency=5s"], ["--emulated-version", "--log-flush-frequency"]),
        (["--vmodule=a=1", "--vmodule=b=2"], ["--vmodule"]),
    ],
)
def test_what_is_asked_for_and_does_not_happen_is_named_once(arguments: list[str], warned: list[str]) -> None:
    assert [setting.written for setting in parse_options(arguments, "0").idle] == warned


@pytest.mark.parametrize("gate", ["CompositePodGroup", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"])
def test_a_gate_of_pod_groups_that_is_not_followed_says_what_is(gate: str) -> None:
    (setting,) = parse_options([f"--feature-gates={gate}=true"], "0").idle
    assert "minCount and one topology are followed, with GenericWorkload and GangScheduling" in setting.reason
    assert not parse_options([f"--feature-gates={gate}=false"], "0").idle


def test_the_gates_of_gangs_are_chosen_without_a_warning() -> None:
    options = parse_options(["--feature-gates=GenericWorkload=true,GangScheduling=true"], "0")
    assert not options.idle
    assert options.feature_gates == {"GenericWorkload": True, "GangScheduling": True}


def test_deprecated_flags_stand_for_the_file_that_is_not_there() -> None:
    flags = ["--kube-api-qps=5.5", "--kube-api-burst=7", "--profiling=false"]
    model = default_configuration(parse_options(flags, "0").connection, allow_default_scheduler_name=True).model
    assert (model.client_connection.qps, model.client_connection.burst) == (5.5, 7)
    assert not model.enable_profiling


@pytest.mark.parametrize(
    ("arguments", "takes_its_place"),
    [
        (["--leader-elect=true", "--kubeconfig=k"], True),
        (["--leader-elect", "--leader-elect-resource-name=kube-scheduler"], True),
        ([], False),
        (["--leader-elect=false"], False),
        (["--leader-elect=true", "--leader-elect-resource-name=mine"], False),
        (["--leader-elect=true", "--leader-elect-resource-namespace=mine"], False),
        (["--leader-elect=true", "--config=c.yaml"], False),
    ],
)
def test_only_the_cluster_schedulers_lease_lets_the_default_name_through(
    arguments: list[str], takes_its_place: bool
) -> None:
    assert parse_options(arguments, "0").takes_the_cluster_schedulers_place is takes_its_place


def test_the_version_is_shown_as_upstreams_flag_asks_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    for argument in ("--version", "--version=raw", "--version=true"):
        with pytest.raises(SystemExit) as caught:
            run([argument])
        assert not caught.value.code
    assert capsys.readouterr().out.count("a drop-in for kube-scheduler v1.34") == 3


def test_as_json_a_refused_configuration_is_json_too(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(GOOD + "parallelism: 0\nunknown: 1\n")
    command = [sys.executable, "-m", "scheduler", f"--config={config}", "--logging-format=json", "--vmodule=x=1"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 4
    records = [json.loads(line) for line in finished.stderr.splitlines()]
    assert any("parallelism" in record["err"] for record in records)
