"""The files of a rebalancer, and its flags."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from secondary_scheduler.rebalancer.app import SetupError, read_setup, unchanged
from secondary_scheduler.rebalancer.options import RebalancerOptions, parse_options
from secondary_scheduler.rebalancer.status import Mode
from tests.support.simulating import LOAD_AWARE, run

PLAIN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def options(directory: Path, configuration: str = LOAD_AWARE, settings: str | None = None) -> RebalancerOptions:
    config = directory / "config.yaml"
    config.write_text(configuration)
    if settings is None:
        return RebalancerOptions(config=config)
    (directory / "settings.yaml").write_text(settings)
    return RebalancerOptions(config=config, settings=directory / "settings.yaml")


def test_the_one_source_of_the_configuration_is_read(tmp_path: Path) -> None:
    setup = read_setup(options(tmp_path, settings="intervalSeconds: 60\n"), None)
    assert setup.settings.interval_seconds == 60
    assert setup.source
    assert read_setup(options(tmp_path, settings=""), None).settings.interval_seconds == 300


def test_a_config_map_and_what_a_stack_file_says_are_configurations_too(tmp_path: Path) -> None:
    held = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": LOAD_AWARE}})
    plain, inside = (read_setup(options(tmp_path, text), None) for text in (LOAD_AWARE, held))
    assert inside.configuration.hash == plain.configuration.hash
    extracted = replace(options(tmp_path, "config: {}"), extract=lambda text: LOAD_AWARE)
    assert read_setup(extracted, None).configuration.hash == plain.configuration.hash


@pytest.mark.parametrize(
    ("configuration", "settings", "message"),
    [
        (PLAIN, None, "its plugins read no load source"),
        ("kind: [", None, "not valid YAML"),
        (LOAD_AWARE, "intervalSeconds: 1", "intervalSeconds: must be at least 10"),
        (LOAD_AWARE, "a: [", "not valid YAML"),
        (LOAD_AWARE, "colour: red", 'colour: unknown field "colour"'),
        (LOAD_AWARE, "intervalSeconds: .inf", "settings.yaml:1:18: intervalSeconds: unsupported value: .inf"),
        (LOAD_AWARE, "thresholds: {cpu: 1e400, memory: 90}", "settings.yaml:1:19: thresholds.cpu: unsupported value"),
        (LOAD_AWARE, "intervalSeconds: 60\nintervalSeconds: 90", "settings.yaml:2:1: intervalSeconds: "),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, configuration: str, settings: str | None, message: str) -> None:
    with pytest.raises(SetupError, match=message.replace("[", r"\[")):
        read_setup(options(tmp_path, configuration, settings), None)


def test_a_change_of_a_mounted_file_is_noticed(tmp_path: Path) -> None:
    flags = options(tmp_path, settings="intervalSeconds: 60\n")
    same = unchanged(flags)
    assert same()
    (tmp_path / "settings.yaml").write_text("intervalSeconds: 90\n")
    assert not same()


def test_the_pod_says_where_it_is() -> None:
    environment = {"POD_NAMESPACE": "own", "POD_NAME": "pod-1", "POD_IP": "10.0.0.1"}
    flags = parse_options(["--config", "c", "--mode", "Automatic", "--scheduler", "a/b"], environment)
    assert (flags.namespace, flags.identity, flags.bind_address) == ("own", "pod-1", "10.0.0.1")
    assert (flags.mode, flags.scheduler) == (Mode.AUTOMATIC, ("a", "b"))
    assert parse_options(["--config", "c"], {}).mode is Mode.OFF


@pytest.mark.parametrize(
    "wrong", [["--mode", "On"], ["--scheduler", "name"], ["--port", "70000"], ["--metric-service-account-token", "f"]]
)
def test_wrong_flags_are_usage(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(["--config", "c", *wrong], {})
    assert ended.value.code == 2


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    options(tmp_path)
    config = tmp_path / "config.yaml"
    assert run("rebalance", "run", "--config", tmp_path / "none.yaml").code == 4
    done = run("rebalance", "run", "--config", config, "--scheduler", "name")
    assert done.code == 2
    assert "--scheduler: 'name' is not NAMESPACE/NAME" in done.err
    done = run("rebalance", "run", "--config", config, "--kubeconfig", tmp_path / "none")
    assert done.code == 1
