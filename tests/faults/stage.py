"""Where a scenario is played: a namespace, nodes and a scheduler name of its own on a shared control plane, schedulers
behind proxies, and the oracle's verdict in the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.apiclient import Api, ApiError
from tests.faults import history, oracle
from tests.faults.fits import GROUP_LABEL
from tests.faults.history import GROUP, NODE, POD, History, State
from tests.faults.mutants import MUTANTS
from tests.faults.oracle import Bounds, Expectations, Ours, Violation
from tests.faults.patience import patience
from tests.faults.plane import FaultPlane
from tests.faults.proxy import Proxy
from tests.faults.schedulers import LEASE, LEASE_LOST, OURS, Scheduler, Setup
from tests.faults.warm import WarmStarts

Json = dict[str, Any]
CANARY = "canary-e7f1c0de-do-not-show"
_CRD = Path(__file__).parents[2] / "components/crds/scheduling.x-k8s.io_podgroups.yaml"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MUTANTS_WITHIN_SECONDS = 8.0
"""A mutant that loses pods need not be waited for as long as a scheduler that might be slow."""
_READ_SINGLY = 3
_MAX_DELETIONS = 10
GANGS: Json = {
    "plugins": {
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
    }
}
"""A profile with gangs."""


@dataclass
class Result:
    """How a scenario went."""

    number: int
    name: str
    kind: str
    seed: int
    violations: list[Violation]
    figures: dict[str, float]
    seconds: float

    def row(self) -> Json:
        """As JSON."""
        return {
            "number": self.number,
            "name": self.name,
            "kind": self.kind,
            "seed": self.seed,
            "violations": list(map(str, self.violations)),
            "figures": {name: round(value, 2) for name, value in self.figures.items()},
            "seconds": round(self.seconds, 1),
        }


@dataclass
class Stage:
    """What a scenario acts on. Times are seconds."""

    plane: FaultPlane
    api: Api
    directory: Path
    kind: str
    seed: int
    namespace: str
    random: random.Random
    start_revision: int
    expected: Expectations = field(default_factory=Expectations)
    bounds: Bounds = field(default_factory=lambda: Bounds(log_bytes=2 << 20, resident_bytes=400 << 20, descriptors=200))
    violations: list[Violation] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    schedulers: list[Scheduler] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    """Exit codes of schedulers that a scenario ends itself."""
    audited: Mapping[history.LogId, int] = field(default_factory=dict)
    """How much of each audit log is of former scenarios, in bytes."""
    warm_starts: WarmStarts | None = None
    """Forks our schedulers, where it is set."""
    within: float = 60.0
    """How long anything may take, the end included: all that fits is bound, and caches equal the API."""
    _exits: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    # Schedulers -----------------------------------------------------------------------------------------------------

    async def scheduler(self, name: str = "a", *, ready: bool = True, start: bool = True, **setup: Any) -> Scheduler:
        """Start a scheduler of the kind that is tried, behind a proxy of its own and under a user of its own."""
        user = f"{self.namespace}-{name}"
        groups = setup.pop("groups", ("system:masters",))
        scheduler_name = setup.pop("scheduler_name", self.namespace)
        proxy = await self._exits.enter_async_context(Proxy.of(self.plane, seed=self.seed, user=user, groups=groups))
        setup.setdefault("kind", self.kind)
        mutant = MUTANTS.get(setup["kind"])
        if mutant is not None and mutant.profile:
            setup["profile"] = mutant.profile
        setup.setdefault("user_entry", {"token": CANARY})
        scheduler = Scheduler(
            name,
            Setup(**setup),
            proxy,
            self.directory,
            self.plane.binary(setup["kind"]),
            scheduler_name,
            self.warm_starts,
        )
        self.schedulers.append(scheduler)
        if start:
            await scheduler.start(ready=ready)
        return scheduler

    def expect_leader(self) -> None:
        """Have it judged that only the Lease's holder binds."""
        self.expected.lease = LEASE

    async def pair(self, **setup: Any) -> tuple[Scheduler, Scheduler]:
        """A leader and a follower."""
        self.expect_leader()
        leader = await self.scheduler("a", leader_election=True, **setup)
        await leader.until(lambda: leader.leads, 30)
        return leader, await self.scheduler("b", leader_election=True, **setup)

    # Objects --------------------------------------------------------------------------------------------------------

    async def nodes(self, *names: str, cpu: str = "1", labels: dict[str, str] | None = None, **spec: Any) -> None:
        """Make nodes."""
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        for name in names:
            metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
            status = {"allocatable": amounts, "capacity": amounts, "conditions": conditions}
            await self.api.create({"kind": "Node", "metadata": metadata, "spec": spec, "status": status})

    async def resize_node(self, name: str, cpu: str) -> None:
        """Give a node another amount of CPU."""
        amounts = {"cpu": cpu}
        await self.api.set_status(self.node_item(name), {"allocatable": amounts, "capacity": amounts})

    async def pods(self, *names: str, cpu: str = "400m", labels: dict[str, str] | None = None, **spec: Any) -> None:
        """Make pods, for the scheduler unless `schedulerName` says otherwise."""
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
        spec = {"schedulerName": self.namespace, "containers": containers, **spec}
        for name in names:
            metadata = {"name": name, "namespace": self.namespace, "labels": labels or {}}
            await self.api.create({"kind": "Pod", "metadata": metadata, "spec": spec})

    async def gang(
        self,
        name: str,
        size: int,
        least: int | None = None,
        cpu: str = "400m",
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Make a PodGroup and its pods, `name-0` and so on."""
        group = {"minMember": least or size, "scheduleTimeoutSeconds": 10}
        metadata = {"name": name, "namespace": self.namespace, "annotations": annotations or {}}
        version = "scheduling.x-k8s.io/v1alpha1"
        await self.api.create({"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": group})
        await self.pods(*(f"{name}-{number}" for number in range(size)), cpu=cpu, labels={GROUP_LABEL: name})

    def node_item(self, name: str) -> Json:
        """Names a node for the API client."""
        return {"kind": "Node", "metadata": {"name": name}}

    def pod_item(self, name: str) -> Json:
        """Names a pod for the API client."""
        return {"kind": "Pod", "metadata": {"name": name, "namespace": self.namespace}}

    async def delete(self, *names: str) -> None:
        """Delete pods at once."""
        for name in names:
            await self.api.delete(self.pod_item(name))

    async def bind_by_hand(self, name: str, node: str) -> None:
        """Bind a pod as another scheduler would."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/binding"
        await self.api.call("POST", path, {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})

    async def where(self, *names: str) -> dict[str, str]:
        """Pods to their nodes, empty where they wait: these, or all."""
        if 0 < len(names) <= _READ_SINGLY:
            listed = [await self.api.get(self.pod_item(name)) for name in names]
        else:
            listed = await self.api.list_all("Pod", self.namespace)
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in listed}

    async def bound(self, *names: str, within: float = 30.0) -> float:
        """Wait until these pods, or all, are bound; returns how long it took. Being late breaks I4."""
        within = patience(min(within, self.within))
        started = time.monotonic()
        while True:
            nodes = await self.where(*names)
            waiting = [name for name in names or nodes if not nodes.get(name)]
            if not waiting:
                return time.monotonic() - started
            if time.monotonic() - started > within:
                self.violations.append(Violation("I4", f"not bound within {within:g} s: {', '.join(waiting[:5])}"))
                return within
            await asyncio.sleep(0.05)

    async def answered(self, *names: str, within: float = 45.0) -> float:
        """Wait until each of these pods has a node or a reason; returns how long that took."""
        wanted = set(names)

        async def all_answered() -> bool:
            if len(names) <= _READ_SINGLY:
                listed = [await self.api.get(self.pod_item(name)) for name in names]
            else:
                listed = await self.api.list_all("Pod", self.namespace)
            return wanted <= {pod["metadata"]["name"] for pod in listed if pod["spec"].get("nodeName") or reason(pod)}

        return await eventually(all_answered, min(within, self.within))

    async def state(self) -> State:
        """The objects as the API shows them now."""
        state = State()
        for kind, name in ((POD, "Pod"), (NODE, "Node"), (GROUP, "PodGroup")):
            listed = await self.api.list_all(name, self.namespace if kind != NODE else "")
            state.objects[kind] = {
                (item["metadata"].get("namespace", ""), item["metadata"]["name"]): item for item in listed
            }
        return state

    # The end --------------------------------------------------------------------------------------------------------

    @property
    def ours(self) -> Ours:
        """Whom the oracle judges."""
        users = frozenset(scheduler.proxy.user for scheduler in self.schedulers if scheduler.judged)
        return Ours(users, frozenset({self.namespace}))

    async def settle(self) -> None:
        """Wait until nothing that fits waits and every cache equals the API, as long as `within`."""
        started = time.monotonic()
        while True:
            try:
                state = await self.state()
            except ApiError:
                # An API server that has just started does not serve every kind yet.
                assert time.monotonic() - started < patience(self.within)
                await asyncio.sleep(0.5)
                continue
            violations = oracle.gangs(state, self.ours, self.expected.shrunk)
            if self.expected.liveness:
                violations += oracle.liveness(state, self.ours, self.expected.waiting)
            for scheduler in self.schedulers:
                if scheduler.alive and scheduler.is_ours:
                    try:
                        violations += oracle.cache(await scheduler.cache(), state)
                    except AssertionError as error:
                        # One that loses its Lease, or is killed, ends when it likes; another may stand in its place.
                        violations.append(Violation("I7", f"no answer: {str(error)[-500:]}"))
            if not violations:
                self.figures["quiet_seconds"] = time.monotonic() - started
                return
            if time.monotonic() - started > patience(self.within):
                self.violations += violations
                return
            await asyncio.sleep(0.3)

    async def judge(self) -> None:
        """Collect outputs and figures, end the schedulers, and ask the oracle."""
        await self.settle()
        outputs: dict[str, str] = {}
        for scheduler in self.schedulers:
            if scheduler.alive:
                for path in ("/metrics", "/readyz?verbose"):
                    outputs[f"{scheduler.name} {path}"] = (await scheduler.ask(path))[1]
                figures = scheduler.figures()
                if scheduler.is_ours:
                    self.violations += oracle.bounded(figures, self.bounds)
                for name, value in figures.items():
                    self.figures[name] = max(self.figures.get(name, 0), value)
                code = await scheduler.stop() if scheduler.alive else 0
                if code != 0 and scheduler.is_ours and LEASE_LOST not in scheduler.log_since_start:
                    self.violations.append(Violation("I9", f"{scheduler.name} ended with {code} after SIGTERM"))
            outputs[f"{scheduler.name} log"] = scheduler.log
            if scheduler.is_ours and "Traceback" in scheduler.log:
                self.violations.append(Violation("I9", f"{scheduler.name} logged a traceback"))
        outputs["objects"] = json.dumps([list(of_kind.values()) for of_kind in (await self.state()).objects.values()])
        outputs["events"] = json.dumps(
            await self.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")
        )
        self.violations += oracle.secret(CANARY, outputs)
        past = await asyncio.to_thread(self.history)
        self.violations += oracle.judge(past, self.ours, self.expected)
        if self.violations:
            (self.directory / "history.txt").write_text(past.as_text())
        binds = [bind for bind in past.binds() if self.ours.bound(bind)]
        self.figures["bound"] = len(binds)
        self.figures["overcommits"] = sum(violation.invariant == "I2" for violation in self.violations)

    def history(self) -> History:
        """Everything since the scenario began, with what was there before as context."""
        return history.read_history(self.plane.etcd, self.plane.audit_logs, self.start_revision, self.audited)

    async def _delete_all(self, kind: str) -> None:
        # Of ten thousand objects, a request deletes as many as it has time for.
        for _ in range(_MAX_DELETIONS):
            with contextlib.suppress(TimeoutError):
                await self.api.delete_all(kind, self.namespace)
                return

    async def close(self) -> None:
        """End what is left and take the objects away."""
        for scheduler in self.schedulers:
            if scheduler.alive:
                await scheduler.kill()
        await self._exits.aclose()
        for kind in ("Pod", "PodGroup"):
            with contextlib.suppress(ApiError):
                await self._delete_all(kind)
        await self._delete_all("Node")
        with contextlib.suppress(ApiError):
            lease = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE[0]}/leases/{LEASE[1]}"
            await self.api.call("DELETE", lease)
        await self.api.close()


async def prepare(plane: FaultPlane) -> None:
    """Make what every scenario needs: the PodGroup kind."""
    api = Api(plane)
    try:
        definition = yaml.safe_load(_CRD.read_text())
        with contextlib.suppress(ApiError):
            await api.call("POST", _CRDS, definition)
        async with asyncio.timeout(patience(30)):
            while True:
                with contextlib.suppress(Exception):
                    await api.list_all("PodGroup", "default")
                    return
                await asyncio.sleep(0.1)
    finally:
        await api.close()


@contextlib.asynccontextmanager
async def stage_open(
    plane: FaultPlane, directory: Path, label: str, seed: int, kind: str = OURS, warm_starts: WarmStarts | None = None
) -> AsyncIterator[Stage]:
    """A stage for one scenario; `warm_starts` makes starting our schedulers cheap."""
    api = Api(plane)
    # A name of its own each time: what is left of a former run cannot be mistaken for this one's.
    namespace = f"{label}-{seed}-{random.SystemRandom().randrange(1 << 24):06x}"
    directory = directory / namespace
    await asyncio.to_thread(directory.mkdir, parents=True)
    await api.create({"kind": "Namespace", "metadata": {"name": namespace}})
    revision = await asyncio.to_thread(history.revision, plane.etcd)
    audited = history.log_sizes(plane.audit_logs)
    stage = Stage(plane, api, directory, kind, seed, namespace, random.Random(seed), revision)
    stage.audited, stage.warm_starts = audited, warm_starts
    if kind in MUTANTS:
        stage.within = _MUTANTS_WITHIN_SECONDS / patience(1)  # what a mutant loses is waited for in vain
    try:
        yield stage
    finally:
        await stage.close()


def reason(pod: Json) -> str:
    """Why a pod waits, as a scheduler says it; empty before it does."""
    conditions = pod.get("status", {}).get("conditions") or ()
    of_scheduling = [each for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"]
    # The API server itself says of a pod with a gate that it is gated.
    return "".join(each.get("message", "") for each in of_scheduling if each.get("reason") != "SchedulingGated")


async def eventually(condition: Callable[[], Any], seconds: float = 30.0) -> float:
    """Wait for a condition, which may be a coroutine; returns how long that took.

    Raises:
        TimeoutError: it is not true after `patience(seconds)`.
    """
    started = time.monotonic()
    async with asyncio.timeout(patience(seconds)):
        while True:
            outcome = condition()
            if await outcome if asyncio.iscoroutine(outcome) else outcome:
                return time.monotonic() - started
            await asyncio.sleep(0.05)


def names(prefix: str, count: int) -> Iterable[str]:
    """`prefix-0` and so on."""
    return [f"{prefix}-{number}" for number in range(count)]
