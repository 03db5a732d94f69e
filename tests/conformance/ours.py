"""Asks our scheduler: the same objects, decoded as the daemon decodes them, through `scheduler.core.explain`."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime

from scheduler.catalog import DEFAULT_KUBERNETES, KubernetesVersion
from scheduler.config import load_configuration
from scheduler.core import Explanation, Placement, decide, explain, run_post_filters
from scheduler.engine import assemble
from scheduler.framework import PodInfo, ProfileRunner, conclude
from scheduler.helpers import PodReducer, reduce_node
from scheduler.kube.model import decode_node, decode_pod
from scheduler.state import CODEC_OF_KIND, ClusterState, Snapshot
from tests.conformance import profiles
from tests.conformance.case import BOUND, ERROR, GATED, SPARES_LEAVING_VICTIMS, UNSCHEDULABLE, Answer, Json
from tests.conformance.coverage import Exercised, exercised

_NOT_AVAILABLE = " nodes are available:"
_CHANCES = 40


class Ours:
    """Our scheduler with the oracle's configuration, or another.

    Nothing is kept between questions, but `exercised`: what plugins did about each pod asked about.
    """

    def __init__(self, text: str | None = None, kubernetes: KubernetesVersion = DEFAULT_KUBERNETES) -> None:
        text = profiles.configuration("", kubernetes) if text is None else text
        configuration = load_configuration(text, source="conformance")
        self._kubernetes = kubernetes
        self._runners = assemble(configuration).runners
        self.exercised: list[Exercised] = []

    def ask(self, pod: Json, world: Iterable[Json]) -> Answer:
        """Answer for a pod in a cluster given by its objects."""
        answer, did = self._answer(pod, world)
        self.exercised.append(did)
        return answer

    def _answer(self, pod: Json, world: Iterable[Json]) -> tuple[Answer, Exercised]:
        runner = self._runners[pod["spec"]["schedulerName"]]
        reducer = PodReducer(self._kubernetes)
        state = ClusterState()
        for item in world:
            load(state, reducer, item)
        incoming = reducer.reduce(decode_pod(_bytes(pod)))
        gate = runner.run_pre_enqueue(incoming)
        if not gate.is_success:
            return Answer(GATED, message=gate.message), Exercised(rejected=frozenset({gate.plugin}))
        snapshot = state.snapshot(datetime.now(UTC).timestamp())
        explanation = explain(snapshot, incoming, runner)
        decision = conclude(decide(snapshot, incoming, runner, random.Random(0)))
        did = exercised(explanation)
        nodes = {name: node for name, node in explanation.nodes() if node.feasible}
        if decision.node is None:
            if decision.message != explanation.message:
                message = f"decide and explain disagree: {decision.message!r} and {explanation.message!r}"
                return Answer(ERROR, message=message), did
            answer = _answer_of_rejection(snapshot, incoming, runner, decision, self._kubernetes)
            if answer.nominated:
                did = dataclasses.replace(did, decided=did.decided | {"DefaultPreemption"})
            return answer, did
        if not nodes:
            # `explain` scores a single feasible node too, `decide` does not: an error in scoring is then not fatal.
            return Answer(BOUND, frozenset({decision.node}), best=frozenset({decision.node}), node=decision.node), did
        answer = Answer(
            BOUND,
            node=decision.node,
            feasible=frozenset(nodes),
            scores={
                name: {plugin: score.weighted for plugin, score in node.scores.items()} for name, node in nodes.items()
            },
            totals={name: node.total for name, node in nodes.items()},
            best=frozenset(explanation.best),
        )
        return answer, did


def _answer_of_rejection(
    snapshot: Snapshot, pod: PodInfo, runner: ProfileRunner, placement: Placement, kubernetes: KubernetesVersion
) -> Answer:
    message = placement.message or ""
    if placement.diagnosis is None or _NOT_AVAILABLE not in message:
        return Answer(ERROR, message=message)
    # Nodes where preemption hurts equally are chosen between by chance: what can come out is seen by trying often.
    evictions: dict[tuple[str, tuple[str, ...]], None] = {}
    for seed in range(_CHANCES):
        again = conclude(decide(snapshot, pod, runner, random.Random(seed)))
        outcome = conclude(run_post_filters(snapshot, again, runner))
        # Those whose deletion is requested: it is what the real scheduler logs.
        spared = kubernetes.minor >= SPARES_LEAVING_VICTIMS
        victims = tuple(sorted(victim.key for victim in outcome.victims if not (spared and victim.deleting)))
        evictions[outcome.nominated_node or "", victims] = None
        if not outcome.nominated_node:
            break
    (nominated, victims), *_ = evictions
    return Answer(
        UNSCHEDULABLE,
        message=outcome.message,
        nominated=nominated,
        victims=victims,
        evictions=tuple(evictions),
    )


def load(state: ClusterState, reducer: PodReducer, item: Json) -> None:
    """Put one object into the state. Kinds that no implemented plugin reads are left out."""
    match item["kind"]:
        case "Node":
            state.upsert_node(reduce_node(decode_node(_bytes(item))))
        case "Pod" if item["spec"].get("nodeName"):
            state.upsert_pod(reducer.reduce(decode_pod(_bytes(item))))
        case "Pod":
            pod = reducer.reduce(decode_pod(_bytes(item)))
            state.nominator.set(pod, pod.nominated_node)
        case kind if kind in CODEC_OF_KIND:
            state.objects.upsert(kind, CODEC_OF_KIND[kind].decode(_bytes(item)))


def _bytes(item: Json) -> bytes:
    return json.dumps(item).encode()


def answer_of(explanation: Explanation) -> Answer:
    """What an explanation says of where a pod may go, for plugins whose every score is compared."""
    nodes = {name: node for name, node in explanation.nodes() if node.feasible}
    if not nodes:
        return Answer(UNSCHEDULABLE, message=explanation.message or "")
    return Answer(
        BOUND,
        feasible=frozenset(nodes),
        scores={
            name: {plugin: score.weighted for plugin, score in node.scores.items()} for name, node in nodes.items()
        },
        totals={name: node.total for name, node in nodes.items()},
        best=frozenset(explanation.best),
        node=sorted(explanation.best)[0],
    )
