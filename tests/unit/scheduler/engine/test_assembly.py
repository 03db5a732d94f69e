"""From a configuration to profiles that decide, without an engine around them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scheduler.config import Configuration, load_configuration
from scheduler.engine import assemble, is_reserved, read_named_file
from scheduler.framework import Clocks, Code, conclude
from scheduler.plugins.coscheduling import SafeCoscheduling
from tests.support.faketime import ManualClocks
from tests.unit.scheduler.engine.fakes import CONFIGURATION
from tests.unit.scheduler.engine.gangs import configuration
from tests.unit.scheduler.engine.pods import node_info, pod_info


def loaded(text: str = CONFIGURATION) -> Configuration:
    return load_configuration(text, source="test")


def test_profiles_stand_by_scheduler_name_in_the_order_of_the_configuration() -> None:
    assembly = assemble(loaded(configuration(profiles=2)))
    assert list(assembly.runners) == ["secondary-scheduler", "second-scheduler"]
    assert assembly.attempts.state is assembly.state


def test_each_decision_sees_the_reservations_before_it() -> None:
    assembly = assemble(loaded(), clocks=Clocks(lambda: 5.0, lambda: 6.0), rng=random.Random(1))
    assembly.state.upsert_node(node_info("n1", cpu="1"))
    attempts = assembly.attempts
    first = conclude(attempts.decide(attempts.snapshot(), pod_info("a", cpu="700m")))
    assert is_reserved(attempts.reserve(first))
    assert conclude(attempts.decide(attempts.snapshot(), pod_info("b", cpu="700m"))).code is Code.UNSCHEDULABLE
    attempts.unreserve(first)
    assert conclude(attempts.decide(attempts.snapshot(), pod_info("b", cpu="700m"))).node == "n1"
    assert attempts.snapshot().now == 5.0


def test_plugins_without_a_handle_have_the_given_clocks() -> None:
    manual = ManualClocks(1.0)
    runners = assemble(loaded(configuration()), clocks=manual.clocks).runners
    plugin = runners["secondary-scheduler"].plugins["Coscheduling"]
    assert isinstance(plugin, SafeCoscheduling)
    manual.now = 7.0
    assert plugin._clocks.wall() == 7.0


def test_a_file_is_found_by_the_variable_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "models.json"
    file.write_text("{}")
    monkeypatch.setenv("MODELS", str(file))
    assert read_named_file("MODELS") == (str(file), "{}")
    monkeypatch.setenv("MODELS", str(tmp_path / "missing"))
    with pytest.raises(ValueError, match="missing: no such file or directory"):
        read_named_file("MODELS")
    monkeypatch.delenv("MODELS")
    with pytest.raises(ValueError, match="open : no such file or directory"):
        read_named_file("MODELS")
