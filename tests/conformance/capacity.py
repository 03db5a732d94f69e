"""Random quotas, priorities and protected classes; the real scheduler-plugins binary and ours on one API server.

Here preempted pods keep terminating, and the pod that preempted them stays nominated, while the next pods are asked
about.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from tests.conformance.apiclient import Api, ApiError
from tests.conformance.capacitycases import CLASSES, PROFILES
from tests.conformance.case import BOUND, UNSCHEDULABLE, Asked, Case, Json, key_of
from tests.conformance.controlplane import ControlPlane
from tests.conformance.oracle import Oracle, _answer
from tests.conformance.profiles import document_of, scheduler_name
from tests.conformance.schedulerplugins import install_crds, options, scheduler_plugins_running

QUOTA_CRD = Path(__file__).parents[2] / "components/crds/scheduling.x-k8s.io_elasticquotas.yaml"
_EARLY_SECONDS = 0.12
"""How long quotas get to reach the scheduler before the pods: upstream counts a pod only where it knows the quota."""
_CLASS_SECONDS = 0.5
"""How long admission takes to know a new class, and the scheduler to know that one is gone."""
_EVICTION_SECONDS = 0.15
_EARLY = frozenset({"ElasticQuota", "PriorityClass"})
"""Made before the rest. Priority classes of a case are deleted again before the first question."""


def configuration(kubeconfig: str, *, ours: bool, compatibility: str = "upstream") -> str:
    """The configuration of both; our own options stand in the file of ours only."""
    profiles = []
    for name, plugin in PROFILES.items():
        config: list[Json] = [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}}]
        if ours:
            config.append(options(compatibility))
        plugins: Json = {
            "multiPoint": {"enabled": [{"name": plugin}], "disabled": [{"name": "DynamicResources"}]},
            "postFilter": {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]},
        }
        profiles.append({"schedulerName": scheduler_name(name), "plugins": plugins, "pluginConfig": config})
    return document_of(profiles, kubeconfig)


@contextlib.contextmanager
def real_scheduler_running(running: ControlPlane) -> Iterator[ControlPlane]:
    """Run the real scheduler-plugins with these profiles; the CRD has to be there before it."""
    asyncio.run(install_crds(running, [QUOTA_CRD]))
    with scheduler_plugins_running(running, configuration(str(running.layout.kubeconfig), ours=False)) as real:
        yield real


@contextlib.asynccontextmanager
async def quota_oracle_of(control_plane: ControlPlane) -> AsyncIterator[QuotaOracle]:
    """Ask the scheduler-plugins binary; one oracle at a time."""
    api = Api(control_plane)
    try:
        with control_plane.log.open("rb") as log:
            oracle = QuotaOracle(control_plane, api, log)
            await oracle.prepare()
            yield oracle
    finally:
        await api.close()


class QuotaOracle(Oracle):
    """An oracle that lets preemptions stand."""

    async def prepare(self) -> None:
        """Create the protected classes too."""
        await super().prepare()
        for item in CLASSES:
            with contextlib.suppress(ApiError):
                await self._api.create(item)
            self._permanent.append(await self._api.get(item) | {"kind": item["kind"]})
        # Admission must know them before the first pod.
        await asyncio.sleep(_CLASS_SECONDS)

    async def ask(self, case: Case, settle: float = 0.03) -> list[Asked]:
        """Ask about every pod of a case. Raises ApiError for a case the API server refuses, NoVerdict."""
        world: list[Json] = []
        answers: list[Asked] = []
        try:
            await self._build(case, world, settle)
            for pod in case.pods:
                answers.append(await self._ask_one(pod, case.profile, world, settle))
        finally:
            await self._release(world)
            await self._reset(world)
        return answers

    async def _build(self, case: Case, world: list[Json], settle: float) -> None:
        early = [item for item in case.objects if item["kind"] in _EARLY]
        classes = [item for item in early if item["kind"] == "PriorityClass"]
        await self._api.create_all(early, world)
        if early:
            await asyncio.sleep(max(_CLASS_SECONDS if classes else _EARLY_SECONDS, settle))
        rest = tuple(item for item in case.objects if item["kind"] not in _EARLY)
        await super()._build(dataclasses.replace(case, objects=rest), world, settle)
        if classes:
            world[:] = [item for item in world if item["kind"] != "PriorityClass"]
            for item in classes:
                await self._api.delete(item)
            await asyncio.sleep(_CLASS_SECONDS)

    async def _ask_one(self, pod: Json, profile: str, world: list[Json], settle: float) -> Asked:
        body = pod | {"spec": pod["spec"] | {"schedulerName": scheduler_name(profile)}}
        before = (*self._permanent, *world)
        created = await self._api.create(body) | {"kind": "Pod"}
        key = key_of(created)
        await self._until(lambda: self._attempt(key).done, f"a verdict about pod {key}", 20.0)
        attempt = self._attempt(key)
        answer = _answer(attempt)
        if answer.outcome == BOUND:
            await self._wait_seen("pod added", [key])
            world.append(await self._started(created, len(world)))
            return Asked(created, before, answer)
        if answer.outcome == UNSCHEDULABLE:
            answer = await self._with_preemption(created, attempt, answer, settle)
        if answer.nominated:
            await asyncio.sleep(max(_EVICTION_SECONDS, settle))
            world[:] = [
                await self._api.get(item) | {"kind": "Pod"} if item["kind"] == "Pod" else item for item in world
            ]
            world.append(await self._api.get(created) | {"kind": "Pod"})
        else:
            await self._api.delete(created)
            await self._wait_seen("pod dequeued", [key])
        return Asked(created, before, answer)

    async def _release(self, world: list[Json]) -> None:
        """Take the nominated pods away: nobody waits for their deletion from a node."""
        nominated = [item for item in world if item["kind"] == "Pod" and not item["spec"].get("nodeName")]
        for pending in nominated:
            await self._api.delete(pending)
            world.remove(pending)
        await self._wait_seen("pod dequeued", map(key_of, nominated))
