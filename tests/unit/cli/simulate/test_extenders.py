"""A simulation asks no extender: it says which pods it therefore does not decide, and decides the others."""

from __future__ import annotations

from pathlib import Path

from tests.support.simulating import CONFIGURATION, Bench, node, pod

GPU = "gpu.example.com/cores"
EXTENDER = f"""
extenders:
- urlPrefix: http://127.0.0.1:1/gpu
  filterVerb: filter
  managedResources: [{{name: {GPU}, ignoredByScheduler: true}}]
"""


def test_only_a_pod_that_an_extender_is_interested_in_is_not_simulated(tmp_path: Path) -> None:
    extended = pod("asked", cpu=None)
    extended["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1"}}
    result = Bench(tmp_path, CONFIGURATION + EXTENDER).simulate(node("n1"), extended, pod("plain"))
    assert result.code == 0
    assert result.nodes == {"default/asked": None, "default/plain": "n1"}
    assert result.decisions["default/asked"]["message"] == (
        "not simulated: the extender http://127.0.0.1:1/gpu is to be asked about this pod"
    )
