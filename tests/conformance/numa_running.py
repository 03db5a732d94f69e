"""The real scheduler-plugins and ours with NodeResourceTopologyMatch: `python -m tests.conformance.numa_running`
compares more random cases than the tests do."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

import yaml

from scheduler.config import load_configuration
from scheduler.core import explain
from scheduler.engine import assemble
from scheduler.framework import CycleState
from scheduler.helpers import PodReducer
from scheduler.kube.model import decode_pod
from scheduler.state import ClusterState
from tests.conformance import numa, schedulerplugins
from tests.conformance.apiclient import Api, ApiError
from tests.conformance.case import Answer, Case, Json
from tests.conformance.compare import differences, report
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.oracle import Oracle, oracle_of
from tests.conformance.ours import answer_of, load
from tests.conformance.profiles import document_of, scheduler_name
from tests.conformance.runner import Runner, Summary
from tests.conformance.schedulerlog import VMODULE

CRD = Path(__file__).parents[2] / "components" / "crds" / "topology.node.k8s.io_noderesourcetopologies.yaml"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def configuration(kubeconfig: str, *, ours: bool, reserving: Json | None = None) -> str:
    """The configuration of both; `reserving` are further args, for a plugin that takes part in Reserve as well."""
    profiles = []
    for name, strategy in numa.PROFILES.items():
        args: Json = {"scoringStrategy": strategy} if strategy else {}
        config: list[Json] = [{"name": numa.PLUGIN, "args": args | (reserving or {})}]
        if ours:
            config.append(schedulerplugins.options())
        enabled = [{"name": numa.PLUGIN}]
        points: Json = {
            "postFilter": {"disabled": [{"name": "*"}]},
            "filter": {"enabled": enabled},
            "score": {"enabled": [{"name": numa.PLUGIN, "weight": 1}], "disabled": [{"name": "*"}]},
        }
        if reserving is not None:
            points |= {"reserve": {"enabled": enabled}, "postBind": {"enabled": enabled}}
        profiles.append({"schedulerName": scheduler_name(f"numa-{name}"), "plugins": points, "pluginConfig": config})
    return document_of(profiles, kubeconfig)


async def install(api: Api) -> None:
    """Install the CRD and wait until it is served."""
    manifest = yaml.safe_load(CRD.read_text())
    with contextlib.suppress(ApiError):
        await api.call("POST", _DEFINITIONS, manifest)
    deadline = time.monotonic() + 20
    while True:
        status = (await api.call("GET", f"{_DEFINITIONS}/{manifest['metadata']['name']}")).get("status", {})
        # Null for a moment.
        if any(
            condition["type"] == "Established" and condition["status"] == "True"
            for condition in status.get("conditions") or ()
        ):
            return
        assert time.monotonic() < deadline, "the CRD is not served"
        await asyncio.sleep(0.05)


@contextlib.contextmanager
def scheduler_plugins_running(
    running: ControlPlane, reserving: Json | None = None, vmodule: str = VMODULE
) -> Iterator[ControlPlane]:
    """Run the real scheduler-plugins beside the control plane, which has the CRD."""
    text = configuration(str(running.layout.kubeconfig), ours=False, reserving=reserving)
    with schedulerplugins.scheduler_plugins_running(running, text, vmodule) as real:
        yield real


@contextlib.asynccontextmanager
async def numa_oracle(running: ControlPlane) -> AsyncIterator[Oracle]:
    """The real scheduler-plugins, ready to be asked."""
    api = Api(running)
    try:
        await install(api)
    finally:
        await api.close()
    with scheduler_plugins_running(running) as real:
        async with oracle_of(real) as oracle:
            yield oracle


class OursWithZones:
    """Our scheduler with the same configuration."""

    def __init__(self, reserving: Json | None = None) -> None:
        text = configuration("", ours=True, reserving=reserving)
        self._runners = assemble(load_configuration(text, source="conformance")).runners

    def ask(self, pod: Json, world: tuple[Json, ...]) -> Answer:
        """Answer for a pod in a cluster given by its objects."""
        runner, reducer, state = self._runners[pod["spec"]["schedulerName"]], PodReducer(), ClusterState()
        for item in world:
            load(state, reducer, item)
        incoming = reducer.reduce(decode_pod(json.dumps(pod).encode()))
        explanation = explain(state.snapshot(time.time()), incoming, runner)
        return answer_of(explanation)

    def reserve(self, pod: Json, node: str) -> None:
        """The pod is on its way to a node."""
        incoming = PodReducer().reduce(decode_pod(json.dumps(pod).encode()))
        self._runners[pod["spec"]["schedulerName"]].run_reserve(CycleState(), incoming, node)


RESERVING: Json = {"cacheResyncPeriodSeconds": 36_000}
"""No second resync while the tests run."""


async def compare_reservations(running: ControlPlane, seed: int, cases: int, seconds: float, least: int = 0) -> Summary:
    """Ask both about pods that follow each other; each reserves what the real scheduler has chosen. Ends after some
    `seconds`, but with so many cases at least."""
    topologies = numa.published(seed)
    summary = Summary()
    api = Api(running)
    try:
        await install(api)
        for item in topologies:
            await api.create(item)
        with scheduler_plugins_running(running, RESERVING) as real:
            async with oracle_of(real) as oracle:
                generated = (numa.reserving(seed + number) for number in range(cases))
                await _follow(oracle, topologies, generated, seconds, least, summary)
        await api.delete_all("NodeResourceTopology")
    finally:
        await api.close()
    return summary


async def _follow(
    oracle: Oracle, topologies: list[Json], cases: Iterable[Case], seconds: float, least: int, summary: Summary
) -> None:
    started = time.monotonic()
    ours = OursWithZones(RESERVING)
    for case in cases:
        if summary.cases >= least and time.monotonic() - started > seconds:
            break
        summary.cases += 1
        for asked_pod in await oracle.ask(case):
            answer = ours.ask(asked_pod.pod, (*asked_pod.world, *topologies))
            summary.pods += 1
            summary.outcomes[asked_pod.answer.outcome] += 1
            differing = differences(asked_pod.answer, answer)
            if differing:
                summary.mismatches.append(report(case, asked_pod, answer, differing))
            if asked_pod.answer.node:
                ours.reserve(asked_pod.pod, asked_pod.answer.node)
            elif "align" in asked_pod.answer.message:
                summary.rejected["no zone"] += 1
    summary.seconds = time.monotonic() - started


async def _run(options: argparse.Namespace, seed: int, running: ControlPlane) -> int:
    if options.reserving:
        summary = await compare_reservations(running, seed, options.cases, options.seconds)
        return _tell(summary, seed)
    async with numa_oracle(running) as oracle:
        cases = (numa.generate(number, options.profile) for number in range(seed, seed + options.cases))
        summary = await Runner(oracle, OursWithZones()).run(cases, seconds=options.seconds)
    return _tell(summary, seed)


def _tell(summary: Summary, seed: int) -> int:
    print("\n\n".join(summary.mismatches))
    print(f"seed {seed}")
    print(summary.text())
    return 1 if summary.mismatches or summary.refused else 0


def main(arguments: list[str]) -> int:
    """Exit code 0 when everything agrees, 1 on a difference or a refused case."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.numa_running", description=__doc__)
    parser.add_argument("--cases", type=int, default=300, metavar="N", help="number of cases (300)")
    parser.add_argument("--seed", type=int, metavar="S", help="first seed (random; printed)")
    parser.add_argument("--profile", default="", choices=["", *numa.PROFILES], help="only this profile")
    parser.add_argument("--reserving", action="store_true", help="pods that follow each other, with reservations")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    with control_plane_running() as running:
        return asyncio.run(_run(options, seed, running))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
