"""A shadow profile: decided beside the live one, counted, remembered and never bound."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import msgspec
import pytest

from scheduler.config import Configuration, ConfigurationError, load_configuration
from scheduler.core import decide
from scheduler.engine.assembly import assemble, assemble_shadows
from scheduler.engine.decisions import HistoryLimits
from scheduler.engine.shadows import LONG_QUEUE, Shadows
from scheduler.framework import Clocks, MonotonicSeconds, ProfileRunner, WallSeconds, conclude
from scheduler.observe import Metrics
from scheduler.observe.answers import ShadowQuestion, UnansweredError
from scheduler.observe.authorization import access_to
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod
from tests.unit.scheduler.engine.fakes import Engine, eventually, started

_HOURS = itertools.count(0.0, 3600.0)
CLOCKS = Clocks(lambda: WallSeconds(NOW), lambda: MonotonicSeconds(next(_HOURS)))
"""An hour goes by at each look: what a comparison takes on a busy machine keeps none from being made."""
LIVE = "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 1}]}}"
TRIAL = "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}"


def configuration(
    shadow: str = "{profile: trial}", trial: str = "", flavour: str = "ours", tolerant: str = ""
) -> Configuration:
    """Two profiles; `tolerant` is the one that minds no taints."""
    scores = 'score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}'
    plugins = {
        name: f"{{{scores}, filter: {{disabled: [{{name: TaintToleration}}]}}}}"
        if name == tolerant
        else f"{{{scores}}}"
        for name in ("test", "trial")
    }
    return load_configuration(
        f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: test
  plugins: {plugins["test"]}
  pluginConfig:
  - {{name: NodeResourcesFit, args: {LIVE}}}
  - {{name: SecondarySchedulerOptions, args: {{shadow: {shadow}}}}}
- schedulerName: trial
  plugins: {plugins["trial"]}
  pluginConfig:
  - {{name: NodeResourcesFit, args: {TRIAL}}}
{trial}
""",
        source="test",
        flavour=flavour,
    )


class Shadowed:
    def __init__(self, state: ClusterState, loaded: Configuration | None = None, ready: int = 0) -> None:
        loaded = loaded or configuration()
        self.metrics = Metrics()
        self.live: ProfileRunner = assemble(loaded, clocks=CLOCKS, state=state).runners["test"]
        self.state = state
        self.shadows = Shadows(
            assemble_shadows(loaded, state, CLOCKS), CLOCKS, self.metrics, lambda: ready, chance=lambda: 0.5
        )

    def decide(self, name: str = "p", namespace: str = "default") -> None:
        snapshot = self.state.snapshot(WallSeconds(NOW))
        placement = conclude(
            decide(snapshot, pod(name, container("500m"), namespace=namespace), self.live, random.Random(1))
        )
        self.shadows.decided(snapshot, placement, self.live)

    def shown(self, namespace: str | None = None) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(msgspec.json.encode(self.shadows.show(namespace=namespace, limit=10)))[
            "items"
        ]
        return items

    def compared(self) -> dict[str, float]:
        return {labels[2]: count.value for labels, count in self.metrics.shadow_decisions.series()}

    def skipped(self) -> dict[str, float]:
        return {labels[1]: count.value for labels, count in self.metrics.shadow_skipped.series()}


def half_full() -> ClusterState:
    return cluster(node("empty"), node("used"), pods={"used": [pod("old", container("2"))]})


def test_a_profile_that_packs_differs_from_one_that_spreads_and_the_scores_say_why() -> None:
    stage = Shadowed(half_full())
    stage.decide()
    (item,) = stage.shown()
    assert (item["outcome"], item["liveNode"], item["shadowNode"]) == ("otherNode", "empty", "used")
    live = {judged["node"]: judged for judged in item["liveJudges"]}
    shadow = {judged["node"]: judged for judged in item["shadowJudges"]}
    assert live["empty"]["scores"]["NodeResourcesFit"] > live["used"]["scores"]["NodeResourcesFit"]
    loss = shadow["used"]["total"] - shadow["empty"]["total"]
    assert item["scoreLoss"] == loss > 0
    assert stage.compared() == {"otherNode": 1}
    assert [count.value for _, count in stage.metrics.shadow_score_loss.series()] == [loss]


def test_a_node_that_is_as_good_for_the_shadow_is_no_difference() -> None:
    stage = Shadowed(cluster(node("a"), node("b"), node("c")))
    stage.decide()
    assert (stage.compared(), stage.shown()) == ({"sameNode": 1}, [])


def test_differences_are_shown_by_namespace_and_once_per_pod() -> None:
    stage = Shadowed(half_full())
    for name, namespace in (("p", "shop"), ("p", "shop"), ("q", "bank")):
        stage.decide(name, namespace)
    assert [item["pod"] for item in stage.shown("shop")] == ["shop/p"]
    assert [item["pod"] for item in stage.shown()] == ["bank/q", "shop/p"]


def test_a_pod_without_a_place_in_both_is_counted() -> None:
    stage = Shadowed(cluster(node("tiny", allocatable={"cpu": "100m"})))
    stage.decide()
    assert (stage.compared(), stage.shown()) == ({"neitherPlaced": 1}, [])


@pytest.mark.parametrize(
    ("profile", "outcome"), [("trial", "onlyShadowPlaced"), ("test", "onlyLivePlaced")], ids=["shadow", "live"]
)
def test_a_profile_with_fewer_filters_is_the_only_one_that_places_a_pod(profile: str, outcome: str) -> None:
    stage = Shadowed(cluster(node("closed", taints=[("a", "b", "NoSchedule")])), configuration(tolerant=profile))
    stage.decide()
    (item,) = stage.shown()
    rejecting = item["liveJudges"] if profile == "trial" else item["shadowJudges"]
    assert item["outcome"] == outcome
    assert [(judged["node"], judged["rejected_by"]) for judged in rejecting] == [("closed", "TaintToleration")]


def test_nothing_is_compared_while_many_pods_wait_or_beyond_the_sample() -> None:
    stage = Shadowed(half_full(), ready=LONG_QUEUE)
    stage.decide()
    assert (stage.compared(), stage.skipped()) == ({}, {"queue": 1})
    stage = Shadowed(half_full(), configuration("{profile: trial, sampleRatio: 0.2}"))
    stage.decide()
    assert (stage.compared(), stage.skipped()) == ({}, {"sample": 1})


def test_pods_of_a_shadow_are_not_served_and_validation_says_so() -> None:
    loaded = configuration()
    assert loaded.scheduler_names == ("test",)
    assert [profile.scheduler_name for profile in loaded.profiles] == ["test", "trial"]
    (warning,) = [problem for problem in loaded.warnings if "shadow" in problem.message]
    assert warning.loc == ("profiles", 1, "schedulerName")
    assert "pods with this schedulerName are not scheduled" in warning.message


@pytest.mark.parametrize(
    ("shadow", "trial", "reason"),
    [
        ("{profile: nobody}", "", 'no profile has the schedulerName "nobody"'),
        ("{profile: test}", "", "is this profile"),
        ("{profile: trial, sampleRatio: 0}", "", "sampleRatio: 0.0 is not above 0"),
        ("{profile: trial}", "  - {name: SecondarySchedulerOptions, args: {shadow: {profile: test}}}", "has a shadow"),
    ],
)
def test_a_shadow_that_makes_no_sense_is_refused(shadow: str, trial: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        configuration(shadow, trial)


def test_another_image_ignores_the_shadow_and_serves_its_pods() -> None:
    loaded = configuration(flavour="scheduler-plugins@0.34")
    assert loaded.scheduler_names == ("test", "trial")
    assert any("ignores shadow" in problem.message for problem in loaded.warnings)


async def test_the_engine_binds_as_the_live_profile_says_and_no_pod_of_the_shadow() -> None:
    limits = HistoryLimits(records=10, bytes=1 << 20, detail_share=1.0)
    text = json.dumps(configuration().data)
    async with started(Engine(configuration=text, history=limits)) as engine:
        engine.add_node("used", cpu="4")
        engine.add_pod("old", cpu="2", scheduler="test")
        await eventually(lambda: len(engine.api.bindings) == 1, "the first pod is bound")
        engine.add_node("empty", cpu="4")
        engine.add_pod("of-shadow", cpu="1", scheduler="trial")
        engine.add_pod("p", cpu="1", scheduler="test")
        await eventually(lambda: len(engine.api.bindings) == 2, "the second pod is bound")
        assert [node for _, _, node in engine.api.bindings] == ["used", "empty"]
        assert "trial" not in engine.runners
        assert engine.inspector is not None
        answer = json.loads(msgspec.json.encode(engine.inspector.answer(ShadowQuestion("ns", 10))))
    assert [(item["pod"], item["liveNode"], item["shadowNode"]) for item in answer["items"]] == [
        ("ns/p", "empty", "used")
    ]
    (profile,) = answer["profiles"]
    assert profile == {"schedulerName": "test", "shadow": "trial", "compared": {"sameNode": 1, "otherNode": 1}}


async def test_without_a_shadow_the_question_has_no_answer() -> None:
    limits = HistoryLimits(records=10, bytes=1 << 20, detail_share=1.0)
    async with started(Engine(history=limits)) as engine:
        assert engine.inspector is not None
        with pytest.raises(UnansweredError, match="no profile has a shadow") as refused:
            engine.inspector.answer(ShadowQuestion(None, 10))
    assert refused.value.status == 404


@pytest.mark.parametrize(("path", "namespace"), [("", None), ("/namespaces/shop", "shop")])
def test_who_asks_needs_to_list_the_pods_that_are_named(path: str, namespace: str | None) -> None:
    attributes = {"verb": "list", "resource": "pods", **({"namespace": namespace} if namespace else {})}
    assert access_to(f"/debug/shadow{path}") == {"resourceAttributes": attributes}
