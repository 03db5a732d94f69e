"""A secret that stands where none belongs is shown by no command, and not in the status of a SecondaryScheduler.

What the running scheduler shows is in tests/integration/scheduler/test_serving.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from secondary_scheduler.cli import app
from tests.unit.operator.builders import Instance, config_map, scheduler

CANARY = "canary-0a1b2c3d"
ADDRESSES = [
    f"https://user:{CANARY}@prometheus:9090",
    f"https://prometheus/?token={CANARY}",
    f"user:{CANARY}@prometheus",
]
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins: {{score: {{enabled: [{{name: TargetLoadPacking}}]}}}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {args}
"""


def configuration(**provider: object) -> str:
    return CONFIGURATION.format(args=json.dumps({"metricProvider": {"type": "Prometheus", **provider}}))


MISPLACED = [
    *(configuration(address=address) for address in ADDRESSES),
    CONFIGURATION.format(args=json.dumps({"watcherAddress": ADDRESSES[0]})),
    configuration(address="https://p:9090", token=CANARY),
    configuration(address="http://p:9090", token=CANARY),
    configuration(address="https://p:9090", token={"value": CANARY}),
    configuration(address=[f"https://user:{CANARY}@p"]),
]


@pytest.mark.parametrize("text", MISPLACED)
@pytest.mark.parametrize(
    "command", ["validate", "preflight --config", "simulate --config", "plan --snapshot absent --old"]
)
def test_commands_that_read_a_configuration(tmp_path: Path, text: str, command: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    arguments = [*command.split(), str(file)]
    done = CliRunner(env={"KUBECONFIG": str(tmp_path / "absent")}).invoke(app.build(arguments), arguments)
    assert CANARY not in done.output + repr(done.exception)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("command", ["preflight --address", "snapshot --prometheus"])
def test_commands_that_are_given_an_address(tmp_path: Path, address: str, command: str) -> None:
    arguments = [*command.split(), address]
    done = CliRunner(env={"KUBECONFIG": str(tmp_path / "absent")}).invoke(app.build(arguments), arguments)
    assert done.exit_code != 0
    assert CANARY not in done.output + repr(done.exception)


@pytest.mark.parametrize("text", MISPLACED)
def test_the_status_of_a_secondary_scheduler(text: str) -> None:
    world = Instance(scheduler(), config_map(text))
    world.settle()
    assert CANARY not in json.dumps(world.resource["status"])
    assert world.condition("Degraded")[:2] == ("True", "ConfigInvalid")
    assert CANARY not in world.condition("Degraded")[2]
