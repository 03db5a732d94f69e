"""A load that is read is an event for pods that wait for it, and for no others."""

from __future__ import annotations

import json

import pytest

from scheduler.catalog import CredentialRules
from scheduler.config import load_configuration
from scheduler.engine.loadfeeds import LoadFeeds
from scheduler.framework import LoadReading, NodeLoad
from scheduler.load import LoadStatus
from tests.unit.scheduler.engine.fakes import Engine, eventually, started

WATCHER = "http://watcher.test:2020"
STATUS = LoadStatus("watcher", True, "", 0.0, 0)


def configuration(plugin: str, point: str) -> str:
    options = {"load": {"limit": {"whenAllExceed": "reject"}}}
    limits = {"usageThresholds": {"cpu": 60}} if plugin == "HighLoadFilter" else {}
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": "secondary-scheduler",
                    "plugins": {point: {"enabled": [{"name": plugin}]}},
                    "pluginConfig": [
                        {"name": plugin, "args": {"watcherAddress": WATCHER, **limits}},
                        {"name": "SecondarySchedulerOptions", "args": options},
                    ],
                }
            ],
        }
    )


def feeds_of(engine: Engine, text: str) -> LoadFeeds:
    return LoadFeeds(load_configuration(text, source="test"), engine, engine.metrics, CredentialRules())


def read(engine: Engine, feeds: LoadFeeds, **cpu: float) -> list[LoadStatus]:
    """Take in what the source says; returns the statuses that were handed on."""
    now = engine.clocks.wall()
    loads = {name: NodeLoad(cpu_average=value, memory_average=1.0, measured_at=now) for name, value in cpu.items()}
    statuses: list[LoadStatus] = []
    feeds._take_load(LoadReading(loads, now, source=f"watcher:{WATCHER}"))
    feeds._after_read(STATUS, statuses.append)
    return statuses


async def test_a_waiting_pod_is_bound_once_a_read_shows_that_the_node_has_cooled() -> None:
    text = configuration("HighLoadFilter", "multiPoint")
    async with started(Engine(configuration=text)) as engine:
        feeds = feeds_of(engine, text)
        engine.add_node("hot", cpu="8")
        assert read(engine, feeds, hot=90.0) == [STATUS]
        engine.add_pod("p")
        await eventually(lambda: bool(engine.api.patches), "rejected")
        read(engine, feeds, hot=80.0)
        assert engine.queue.counts()["unschedulable"] == 1
        read(engine, feeds, hot=10.0)
        await eventually(lambda: bool(engine.api.bindings), "bound")
        assert engine.api.bindings[0][2] == "hot"


async def test_a_read_is_no_event_where_plugins_only_score_by_load(monkeypatch: pytest.MonkeyPatch) -> None:
    text = configuration("TargetLoadPacking", "score")
    async with started(Engine(configuration=text)) as engine:
        feeds = feeds_of(engine, text)
        monkeypatch.setattr(engine.queue, "on_event", lambda *_, **__: pytest.fail("no pod waits for loads"))
        assert read(engine, feeds) == [STATUS]
