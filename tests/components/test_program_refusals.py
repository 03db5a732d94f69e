"""A stack that cannot be used ends before anything is registered, with the lines of the file that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pulumi
import pytest

from scheduler import __version__
from stacks import loading
from tests.components.graph import Graph, register, run_program, stack_values

STACK_FILE = """\
config:
  # a comment
  secondary-scheduler:schedulerImage: registry.example.com/secondary-scheduler/kube-scheduler:1
  secondary-scheduler:logLevel: loud
  secondary-scheduler:plugins:
    score:
      enabled:
        - name: NodeAffinity
        - name: TargetLoadPacking
          weight: 5
          args:
            targetUtilization: 200
"""


@pytest.mark.parametrize("preview", [False, True], ids=["update", "preview"])
def test_nothing_is_registered_and_every_mistake_has_file_and_line(
    preview: bool, local_environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.local.yaml").write_text(STACK_FILE)
    monkeypatch.setattr(loading, "PROJECT_DIRECTORY", tmp_path)
    enabled = [{"name": "NodeAffinity"}, {"name": "TargetLoadPacking", "args": {"targetUtilization": 200}}]
    values = stack_values("local") | {
        "logLevel": "loud",
        "plugins": json.dumps({"score": {"enabled": enabled}}),
        "operatorImage": "",
        "schedulerImage": "registry.example.com/secondary-scheduler/kube-scheduler",
    }
    registered = Graph()
    with pytest.raises(pulumi.RunError) as refused:
        run_program(values, preview=preview, graph=registered)
    assert str(refused.value).splitlines() == [
        "stacks/Pulumi.local.yaml: operatorImage: missing, and it follows from schedulerImage only where that is this "
        "project's image by tag; set it: pulumi config set operatorImage "
        f"registry.example.com/secondary-scheduler/operator:{__version__}",
        'stacks/Pulumi.local.yaml:4: logLevel: "loud" is not allowed; allowed: Normal, Debug, Trace, TraceAll',
        "stacks/Pulumi.local.yaml:12: plugins.score.enabled[1].args.targetUtilization: "
        "200 is not in the range 1 to 100",
    ]
    assert registered.resources == []


def test_a_missing_environment_variable_of_stack_local_is_reported_by_name(
    local_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("URL", "TOKEN_FILE", "CA_FILE"):
        monkeypatch.delenv(f"SECONDARY_SCHEDULER_PROMETHEUS_{name}", raising=False)
    with pytest.raises(pulumi.RunError) as refused:
        run_program(stack_values("local"))
    lines = str(refused.value).splitlines()
    assert len(lines) == 3
    assert all('is not set; for the local cluster: eval "$(secondary-scheduler cluster env)"' in line for line in lines)


def test_keys_of_other_namespaces_are_none_of_our_business(local_environment: None) -> None:
    seen: list[str] = []
    register(lambda: seen.append(loading.load_stack().name), config=stack_values("local"), other={"kubernetes:x": "y"})
    assert seen == ["local"]
