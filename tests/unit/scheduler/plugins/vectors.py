"""Upstream's own test tables: cases as data, and the state and profile a case describes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.core import explain
from scheduler.framework import LoadReading, NodeLoad, PodInfo, ProfileRunner
from scheduler.helpers import reduce_node, reduce_pod
from scheduler.kube.model import Node, Pod
from scheduler.load import parse_watcher
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, SOURCE, WATCHER, only_scores, runner

_FOLDER = Path(__file__).parents[3] / "conformance/vectors"


def cases(file: str, kind: str) -> list[Any]:
    """The cases of a kind, as pytest parameters."""
    selected = [case for case in json.loads((_FOLDER / file).read_text()) if case["kind"] == kind]
    return [pytest.param(case, id=case["name"]) for case in selected]


def profile_of(case: dict[str, Any], *, compatibility: str = "upstream") -> ProfileRunner:
    """The case's plugin as the only one that scores."""
    args = json.loads(json.dumps(case["args"]).replace("<watcher-server>", WATCHER))
    return runner(only_scores(case["plugin"]), {case["plugin"]: args}, compatibility=compatibility)


def load_profile(plugin: str, compatibility: str = "safe", **args: object) -> ProfileRunner:
    """A plugin that asks a watcher as the only one that scores."""
    return runner(only_scores(plugin), {plugin: {"watcherAddress": WATCHER, **args}}, compatibility=compatibility)


def state_of(case: dict[str, Any]) -> ClusterState:
    """The case's nodes and pods, and the load its watcher serves, read as the watcher source reads it."""
    cluster = ClusterState()
    for raw in case["nodes"]:
        cluster.upsert_node(reduce_node(msgspec.convert(raw, Node)))
    for raw in case["existing_pods"]:
        cluster.upsert_pod(pod_of(raw, f"uid-{raw['metadata']['name']}"), NOW - 3600)
    if case.get("watcher_http_status", 200) == 200:
        reading = parse_watcher(json.dumps(case["watcher_response"]).encode(), "watcher", now=NOW)
        cluster.set_load(replace(reading, source=SOURCE))
    return cluster


def pod_of(raw: dict[str, Any], uid: str = "uid") -> PodInfo:
    """A reduced pod."""
    raw = {**raw, "metadata": {"namespace": "default", **raw["metadata"], "uid": uid}}
    return reduce_pod(msgspec.convert(raw, Pod))


def raw(state: ClusterState, info: PodInfo, scheduler: ProfileRunner, now: float = NOW) -> dict[str, int | None]:
    """By node, what the profile's only plugin that scores says; None where it is not asked."""
    nodes = explain(state.snapshot(now), info, scheduler).nodes()
    return {name: next((score.raw for score in explained.scores.values()), None) for name, explained in nodes}


def loads(values: dict[str, NodeLoad], *, age: float = 0.0) -> LoadReading:
    """A reading that was taken `age` seconds before NOW."""
    return LoadReading(values, NOW - age, source=SOURCE)
