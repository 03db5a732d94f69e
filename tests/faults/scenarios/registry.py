"""What a scenario is, and playing one."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.oracle import Violation
from tests.faults.plane import FaultPlane
from tests.faults.proxy import Hold, Rule
from tests.faults.schedulers import OURS, Scheduler
from tests.faults.stage import Result, Stage, stage_open
from tests.faults.warm import WarmStarts

BINDING: dict[str, Any] = {"verb": "create", "resource": "pods/binding"}
"""What a proxy's rule for Bindings names."""
ROLES = "/apis/rbac.authorization.k8s.io/v1"
Play = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """A fault of the matrix, or a part of one."""

    number: int
    """Of the fault in the matrix (docs/reliability.md)."""
    name: str
    promise: str
    play: Play
    quick: bool
    """Played in every run of the tests."""
    disruptive: bool
    """It breaks the control plane for all; nothing else may run on it meanwhile."""


SCENARIOS: list[Scenario] = []


def scaled(number: int) -> int:
    """A number of objects times $FAULTS_SCALE, which `--scale` sets."""
    return max(1, math.ceil(number * float(os.environ.get("FAULTS_SCALE", "1"))))


def scenario(number: int, promise: str, *, quick: bool = False, disruptive: bool = False) -> Callable[[Play], Play]:
    """Register a coroutine that plays a fault; its name is the scenario's."""

    def register(play: Play) -> Play:
        name = getattr(play, "__name__", "").replace("_", "-")
        SCENARIOS.append(Scenario(number, name, promise, play, quick, disruptive))
        return play

    return register


async def run(
    chosen: Scenario,
    plane: FaultPlane,
    directory: Path,
    seed: int,
    kind: str = OURS,
    warm_starts: WarmStarts | None = None,
) -> Result:
    """Play a scenario and judge it; what goes wrong in playing is a violation, too."""
    started = time.monotonic()
    directory = directory / f"{chosen.name}-{seed}-{kind}"
    async with stage_open(plane, directory, f"f{chosen.number}", seed, kind, warm_starts) as stage:
        for part in (lambda: chosen.play(stage), stage.judge):
            try:
                await part()
            except Exception as error:  # so that the scenarios after it are played
                stage.violations.append(Violation("played", str(error)[-1500:] or type(error).__name__))
        seconds = time.monotonic() - started
        return Result(chosen.number, chosen.name, kind, seed, stage.violations, stage.figures, seconds)


async def binding_held(stage: Stage, *pods: str, cpu: str) -> tuple[Scheduler, Hold]:
    """Start a scheduler and a node `n1` of one CPU, and create pods; returns once a Binding is held."""
    scheduler = await stage.scheduler()
    await stage.nodes("n1", cpu="1")
    hold = Hold()
    scheduler.proxy.add(Rule(hold, **BINDING, times=len(pods)))
    await stage.pods(*pods, cpu=cpu)
    await hold.first()
    return scheduler, hold


@contextlib.asynccontextmanager
async def granted(stage: Stage, rules: list[dict[str, Any]]) -> AsyncIterator[str]:
    """A group with these rights, as long as the block; yields its name, which is also that of its ClusterRole."""
    group = f"{stage.namespace}-rights"
    role = {"metadata": {"name": group}, "rules": rules}
    await stage.api.call("POST", f"{ROLES}/clusterroles", role)
    binding = {
        "metadata": {"name": group},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": group},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": group}],
    }
    await stage.api.call("POST", f"{ROLES}/clusterrolebindings", binding)
    try:
        yield group
    finally:
        await stage.api.call("DELETE", f"{ROLES}/clusterrolebindings/{group}")
        await stage.api.call("DELETE", f"{ROLES}/clusterroles/{group}")
