"""`simulate` with a configuration that a ConfigMap holds, or that follows from a stack file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.simulating import CONFIGURATION, LOAD_AWARE, Bench, Result, load, node, pod, run

CHECKOUT = Path(__file__).resolve().parents[4]
STACK = CHECKOUT / "stacks" / "Pulumi.openshift-prod.yaml"
LOAD = load({"busy": 90, "idle": 10})


def decided(bench: Bench, config: Path) -> Result:
    """On two nodes that differ in their load only."""
    snapshot = bench.write("nodes.yaml", yaml.safe_dump_all([node("busy"), node("idle"), pod("p")]))
    measured = bench.write("load.json", LOAD)
    return run("simulate", "--config", config, "--snapshot", snapshot, "--load", measured, "-o", "json")


def held(text: str) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": text}})


def test_a_config_map_decides_as_what_it_holds(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LOAD_AWARE)
    inside = decided(bench, bench.write("map.yaml", held(LOAD_AWARE)))
    assert inside.code == 0, inside.err
    assert inside.nodes == {"default/p": "idle"}
    assert inside.out == decided(bench, bench.config).out


def test_a_stack_file_decides_as_the_stack_would(tmp_path: Path) -> None:
    done = decided(Bench(tmp_path), STACK)
    assert done.code == 0, done.err
    assert done.nodes == {"default/p": "idle"}
    assert "TargetLoadPacking" in done.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (held(CONFIGURATION.replace("profiles", "profile")), "data[config.yaml]"),
        (held("a: b").replace("config.yaml", "other"), "has no key config.yaml"),
        (f"{held(CONFIGURATION)}---\n{held(CONFIGURATION)}", "holds 2 configurations; give one"),
    ],
)
def test_a_config_map_that_gives_no_one_configuration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    bench = Bench(tmp_path)
    done = decided(bench, bench.write("map.yaml", text))
    assert done.code == 4
    assert message in done.err
    assert not done.out
