"""The real scheduler-plugins and ours with the small plugins: `python -m tests.conformance.smallplugins_running`
compares more random cases, and more queues, than the tests do."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections.abc import AsyncIterator
from functools import partial

from scheduler.config import load_configuration
from scheduler.core import decide, explain
from scheduler.engine import assemble
from scheduler.framework import conclude
from scheduler.helpers import PodReducer, reduce_node
from scheduler.kube.model import decode_node, decode_pod
from scheduler.state import CODEC_OF_KIND, ClusterState
from tests.conformance import smallplugins, smallplugins_queue
from tests.conformance.apiclient import Api
from tests.conformance.case import BOUND, UNSCHEDULABLE, Answer, Case, Json, key_of
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.oracle import SETTLE_SECONDS, Oracle
from tests.conformance.runner import Runner
from tests.conformance.schedulerplugins import install_crds, scheduler_plugins_running

_CUSTOM = frozenset({"AppGroup", "NetworkTopology", "SeccompProfile"})
_CUSTOM_SECONDS = 0.15
"""How long custom resources get to reach the real plugins' own caches, of which the log says nothing. A pod that comes
before its AppGroup ends the real scheduler."""


class SmallOracle(Oracle):
    """Builds a case in steps: custom resources before the pods that name them; pods as the kubelet reports on them."""

    async def _build(self, case: Case, world: list[Json], settle: float) -> None:
        custom = [item for item in case.objects if item["kind"] in _CUSTOM]
        await self._api.create_all(custom, world)
        if custom:
            await asyncio.sleep(max(_CUSTOM_SECONDS, settle))
        waiting = [item for item in case.objects if item["kind"] == "Pod" and "nodeName" not in item["spec"]]
        rest = tuple(item for item in case.objects if item not in custom and item not in waiting)
        await super()._build(Case(case.seed, case.features, case.profile, rest, case.pods), world, settle)
        for index, item in enumerate(world):
            if item["kind"] == "Pod" and item.get("status", {}).get("hostIP"):
                # Upstream counts a pod from the second report on: the first only brings the address.
                await self._api.set_status(item, {"phase": "Running"})
                await self._wait_seen("pod updated", [key_of(item)], 2)
                world[index] = await self._api.get(item) | {"kind": "Pod"}
        for item in waiting:
            created = await self._api.create(item) | {"kind": "Pod"}
            key = key_of(created)
            await self._until(partial(self._is_decided, key), f"a verdict about pod {key}", 20)
            world.append(await self._api.get(created) | {"kind": "Pod"})
        if waiting or any("hostIP" in item.get("status", {}) for item in case.objects):
            await asyncio.sleep(max(SETTLE_SECONDS, settle))

    async def _reset(self, world: list[Json]) -> None:
        # The log tells of the end of pods with a node only.
        await super()._reset([item for item in world if item["kind"] != "Pod" or item["spec"].get("nodeName")])

    def _is_decided(self, key: str) -> bool:
        return bool(self._attempt(key).done)


@contextlib.asynccontextmanager
async def small_oracle(control_plane: ControlPlane) -> AsyncIterator[Oracle]:
    """Ask the real scheduler-plugins with the small plugins."""
    await install_crds(control_plane)
    text = smallplugins.configuration(str(control_plane.layout.kubeconfig), ours=False)
    with scheduler_plugins_running(control_plane, text) as real:
        api = Api(real)
        try:
            with real.log.open("rb") as log:
                oracle = SmallOracle(real, api, log)
                await oracle.prepare()
                yield oracle
        finally:
            await api.close()


class OursSmall:
    """Our scheduler with the same configuration."""

    def __init__(self) -> None:
        text = smallplugins.configuration("", ours=True)
        self._runners = assemble(load_configuration(text, source="conformance")).runners

    def ask(self, pod: Json, world: tuple[Json, ...]) -> Answer:
        """Answer for a pod in a cluster given by its objects."""
        runner = self._runners[pod["spec"]["schedulerName"]]
        reducer, state = PodReducer(), state_of(world)
        incoming = reducer.reduce(decode_pod(_json(pod)))
        snapshot = state.snapshot(time.time())
        explanation = explain(snapshot, incoming, runner)
        nodes = {name: node for name, node in explanation.nodes() if node.feasible}
        if not nodes:
            decision = conclude(decide(snapshot, incoming, runner, random.Random(0)))
            return Answer(UNSCHEDULABLE, message=decision.message or "")
        return Answer(
            BOUND,
            feasible=frozenset(nodes),
            scores={
                name: {plugin: score.weighted for plugin, score in node.scores.items()} for name, node in nodes.items()
            }
            if len(nodes) > 1
            else {},
            totals={name: node.total for name, node in nodes.items()} if len(nodes) > 1 else {},
            best=frozenset(explanation.best),
            node=sorted(explanation.best)[0],
        )


def state_of(world: tuple[Json, ...]) -> ClusterState:
    """The cache that the objects of a cluster make."""
    reducer, state = PodReducer(), ClusterState()
    for item in world:
        kind = item["kind"]
        if kind == "Node":
            state.upsert_node(reduce_node(decode_node(_json(item))))
        elif kind == "Pod":
            pod = reducer.reduce(decode_pod(_json(item)))
            if pod.node_name:
                state.upsert_pod(pod)
            else:
                state.nominator.set(pod, pod.nominated_node)
        elif kind in CODEC_OF_KIND:
            state.objects.upsert(kind, CODEC_OF_KIND[kind].decode(_json(item)))
    return state


def _json(item: Json) -> bytes:
    return json.dumps(item).encode()


async def _scores(control_plane: ControlPlane, options: argparse.Namespace, seed: int) -> bool:
    async with small_oracle(control_plane) as oracle:
        runner = Runner(oracle, OursSmall())
        cases = (smallplugins.generate(number, options.profile) for number in range(seed, seed + options.cases))
        summary = await runner.run(cases, seconds=options.seconds)
    print("\n\n".join([*summary.mismatches, summary.text()]))
    return not summary.mismatches and not summary.refused


async def _queues(control_plane: ControlPlane, options: argparse.Namespace, seed: int) -> bool:
    await install_crds(control_plane)
    agreed = True
    for number in range(seed, seed + options.queues):
        for plugin in smallplugins_queue.PLUGINS:
            differing = await smallplugins_queue.compare(control_plane, plugin, number)
            agreed = agreed and differing.agrees
            print(differing.text())
    return agreed


def main(arguments: list[str]) -> int:
    """Exit code 0 when everything agrees, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.smallplugins_running", description=__doc__)
    parser.add_argument("--cases", type=int, default=200, metavar="N", help="cases for the score plugins (200)")
    parser.add_argument("--queues", type=int, default=5, metavar="N", help="queues per QueueSort plugin (5)")
    parser.add_argument("--seed", type=int, metavar="S", help="first seed (random; printed)")
    parser.add_argument("--profile", default="", choices=["", *smallplugins.PROFILES], help="only this profile")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop scoring after this time")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    print(f"seed {seed}")
    with control_plane_running() as control_plane:
        agreed = asyncio.run(_scores(control_plane, options, seed)) if options.cases else True
        return 0 if asyncio.run(_queues(control_plane, options, seed)) and agreed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
