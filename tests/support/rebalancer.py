"""A fake cluster for the rebalancer's loop: real plans on objects, and an API server that says what a test wants."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from scheduler.config import load_configuration, read_rebalance_settings
from scheduler.framework import Clocks, LoadReading, MonotonicSeconds, NodeLoad, PodInfo, WallSeconds
from scheduler.helpers import PodReducer
from scheduler.kube.model import NODES, PODDISRUPTIONBUDGETS
from scheduler.kube.primitives import format_time
from secondary_scheduler.rebalancer.cluster import KnownPod, Picture, known_node, known_pod
from secondary_scheduler.rebalancer.metrics import RebalancerMetrics
from secondary_scheduler.rebalancer.planner import Planner, RoundInput
from secondary_scheduler.rebalancer.rounds import EvictionAnswer, RebalanceLoop, StatusDeleted
from secondary_scheduler.rebalancer.status import Mode, RoundReport, rebalance_status
from secondary_scheduler.rebalancing import (
    MOVABLE_PODS,
    WORKLOADS,
    EvictionReply,
    History,
    Memory,
    PastMove,
    PlannedMove,
    PodUsage,
    RebalancePlan,
    SchedulerHealth,
    answer_of,
    decode_memory,
    encode_memory,
)
from secondary_scheduler.simulation.settingup import load_sources
from tests.support.rebalancing import NOW, Scene, encoded


class Clock:
    """Stands still until it is moved; the wall clock can be set apart."""

    def __init__(self) -> None:
        self.monotonic_seconds = 1000.0
        self.wall_seconds = float(NOW)

    def advance(self, seconds: float) -> None:
        self.monotonic_seconds += seconds
        self.wall_seconds += seconds

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: WallSeconds(self.wall_seconds), lambda: MonotonicSeconds(self.monotonic_seconds))


class Killed(BaseException):
    """The process dies here."""


@dataclass
class FakeWorld:
    """The cluster of a scene.

    Attributes:
        answers: to the next evictions, as HTTP code and message; 201 once there are none left.
        places_on: where the replacement of an evicted pod comes, by what was planned; None: it stays pending.
        evictions: pod and whether it was a dry run, as they were asked for.
        usage: what pods used, by `namespace/name`.
        unwritable: why the status cannot be written.
        killed_at: `save` or `evict`: the process dies in the next call of it.
    """

    scene: Scene
    clock: Clock
    health: SchedulerHealth = field(default_factory=SchedulerHealth)
    settings: dict[str, Any] = field(default_factory=dict)
    answers: list[tuple[int, str]] = field(default_factory=list)
    places_on: Callable[[PlannedMove], str | None] = lambda move: move.target.name
    evictions: list[tuple[str, bool]] = field(default_factory=list)
    outcomes: list[tuple[str, str]] = field(default_factory=list)
    plans: list[RebalancePlan] = field(default_factory=list)
    saved: str = ""
    status: dict[str, Any] = field(default_factory=dict)
    unwritable: str = ""
    unreadable: str = ""
    killed_at: str = ""
    deleted: bool = False
    stale_seconds: float = 0.0
    usage: dict[str, PodUsage] = field(default_factory=dict)

    # A fake of the loop's `ClusterAccess`; what its methods mean is said there.
    def __post_init__(self) -> None:
        self.scene = copy.deepcopy(self.scene)
        self._moves: dict[str, PlannedMove] = {}
        self._made = 0

    def problem(self) -> str:
        return self.unreadable

    def pod(self, uid: str) -> PodInfo | None:
        return next((pod.info for pod in self._pods() if pod.info.uid == uid), None)

    def pods_of(self, controller: str) -> list[PodInfo]:
        return [
            pod.info
            for pod in self._pods()
            if pod.info.controller is not None and pod.info.controller.uid == controller
        ]

    async def plan(self, history: History, *, evicts: bool) -> RebalancePlan:
        now = self.clock.wall_seconds
        loads = {
            name: NodeLoad(cpu_average=cpu, measured_at=now - self.stale_seconds)
            for name, cpu in self.scene.cpu.items()
        }
        reading = LoadReading(loads, window_end=now - self.stale_seconds)
        configuration = load_configuration(
            self.scene.configuration, source="scene", external_load=True, allow_token_in_config_map=True
        )
        (source,) = load_sources(configuration)
        planner = Planner(configuration, read_rebalance_settings(self.settings), source, frozenset({"own"}))
        round_ = RoundInput(self._picture(), reading, self.usage, history, self.health, now, evicts)
        self.plans.append(planner.plan(round_))
        return self.plans[-1]

    async def evict(self, pod: PodInfo, *, dry_run: bool) -> EvictionAnswer:
        self._die("evict")
        self.evictions.append((pod.key, dry_run))
        code, message = self.answers.pop(0) if self.answers else (201, "")
        answer = answer_of(code, message)
        if answer is EvictionReply.EVICTED and not dry_run:
            self.replace_pod(pod.uid)
        return EvictionAnswer(answer, message)

    async def save(self, memory: Memory, report: RoundReport) -> str:
        self._die("save")
        if self.deleted:
            self.deleted = False
            raise StatusDeleted
        if self.unwritable:
            return self.unwritable
        self.saved = encode_memory(memory)
        self.status = msgspec.json.decode(msgspec.json.encode(rebalance_status(report, memory.history)))
        return ""

    def announce_move(self, move: PlannedMove, pod: PodInfo) -> None:
        self._moves[pod.uid] = move

    def announce_outcome(self, move: PastMove, node: str) -> None:
        assert move.outcome is not None
        self.outcomes.append((move.pod, move.outcome.value))

    # What a test does to the cluster ----------------------------------------------------------------------------------

    def replace_pod(self, uid: str) -> None:
        """A pod goes, and its controller makes another one."""
        (item,) = [item for item in self.scene.objects if item["metadata"].get("uid") == uid]
        self.scene.objects.remove(item)
        move = self._moves.get(uid)
        self._made += 1
        replacement = copy.deepcopy(item)
        replacement["metadata"] |= {
            "name": f"made-{self._made}",
            "uid": f"uid-made-{self._made}",
            "creationTimestamp": format_time(datetime.fromtimestamp(self.clock.wall_seconds, UTC)),
        }
        node = self.places_on(move) if move is not None else None
        if node is None:
            replacement["spec"].pop("nodeName", None)
            replacement["status"] = {"phase": "Pending"}
        else:
            replacement["spec"]["nodeName"] = node
            for condition in replacement["status"]["conditions"]:
                if condition["type"] == "PodScheduled":
                    condition["lastTransitionTime"] = replacement["metadata"]["creationTimestamp"]
        self.scene.objects.append(replacement)

    def placed(self, number: int, node: str) -> None:
        """A pod that was made comes to a node."""
        (replacement,) = [item for item in self.scene.objects if item["metadata"]["name"] == f"made-{number}"]
        replacement["spec"]["nodeName"] = node
        replacement["status"] = {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True"}],
        }

    @property
    def condition(self) -> tuple[str, str]:
        """Status and reason of the condition that is shown."""
        (condition,) = self.status["conditions"]
        return condition["status"], condition["reason"]

    def _die(self, place: str) -> None:
        if self.killed_at == place:
            self.killed_at = ""
            raise Killed

    def _pods(self) -> list[KnownPod]:
        reducer = PodReducer()
        return [
            known_pod(MOVABLE_PODS.decode(encoded(item)), reducer)
            for item in self.scene.objects
            if item["kind"] == "Pod"
        ]

    def _picture(self) -> Picture:
        objects = self.scene.objects
        workloads = {
            (item["kind"], item["metadata"]["namespace"], item["metadata"]["name"]): WORKLOADS[item["kind"]].decode(
                encoded(item)
            )
            for item in objects
            if item["kind"] in WORKLOADS
        }
        budgets = tuple(
            ("PodDisruptionBudget", PODDISRUPTIONBUDGETS.decode(encoded(item)))
            for item in objects
            if item["kind"] == "PodDisruptionBudget"
        )
        nodes = tuple(known_node(NODES.decode(encoded(item))) for item in objects if item["kind"] == "Node")
        return Picture(nodes, tuple(self._pods()), budgets, workloads)


class Loop:
    """A rebalancer on a fake clock; `restart` is another process with what was kept."""

    def __init__(
        self,
        scene: Scene,
        settings: dict[str, Any] | None = None,
        mode: Mode = Mode.AUTOMATIC,
        window: float = 0.0,
        **world: Any,
    ) -> None:
        self.clock = Clock()
        # One round is enough for most tests.
        self.settings = {"consecutiveAbnormalities": 1, **(settings or {})}
        self.world = FakeWorld(scene, self.clock, settings=self.settings, **world)
        self.mode = mode
        self.window = window
        self.metrics = RebalancerMetrics("test")
        self.rebalancer = self._new(Memory())

    def _new(self, memory: Memory) -> RebalanceLoop:
        settings = read_rebalance_settings(self.settings)
        clocks = self.clock.clocks
        return RebalanceLoop(self.world, settings, self.mode, memory, self.metrics, clocks, window=self.window)

    def restart(self, *, forgetful: bool = False) -> None:
        memory = Memory() if forgetful or not self.world.saved else decode_memory(self.world.saved)
        self.rebalancer = self._new(memory)

    async def rounds(self, number: int = 1, *, seconds: float = 300.0) -> None:
        """So many rounds, and the time after each of them."""
        for _ in range(number):
            await self.rebalancer.turn()
            self.clock.advance(seconds)
            await self.rebalancer.follow()

    @property
    def evicted(self) -> list[str]:
        """The pods that were evicted for good."""
        return [pod for pod, dry_run in self.world.evictions if not dry_run]
