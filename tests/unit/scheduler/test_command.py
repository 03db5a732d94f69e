"""The daemon's command line: bad input is one line per mistake and a documented exit code."""

from __future__ import annotations

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
