"""A rebalancer beside the scheduler: the setting, the rules about it, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from scheduler.config import (
    Configuration,
    Problem,
    RebalanceSettings,
    read_rebalancer_spec,
    rebalancer_obstacles,
)

from .values import Image

KEY = "rebalance"
_OWN = {"mode", "image", "run_by"}


class RebalancerSettings(RebalanceSettings):
    """What becomes of plans, and what may be moved: the other keys are those of the file of `rebalance plan`.

    Attributes:
        mode: Off: no rebalancer is installed. Predictive: it evicts with dryRun, so that nothing changes. Automatic: it
            evicts.
        image: this project's image; default: the scheduler's.
        run_by: Operator: the operator runs it, as spec.rebalance of the SecondaryScheduler says. Program: the stack's
            program creates it. Default: the operator where it is ours, whose CRD has that field, else the program.
    """

    mode: Literal["Off", "Predictive", "Automatic"] = "Off"
    image: Image | None = None
    run_by: Literal["Operator", "Program"] | None = None


@dataclass(frozen=True)
class RebalancerPlan:
    """What is to be installed.

    Attributes:
        mode: Predictive or Automatic.
        settings: what may be moved, as the rebalancer reads it; only what was set.
        image: "" for the scheduler's.
        by_operator: whether the operator runs it; else the program creates it.
    """

    mode: str
    settings: Mapping[str, Any]
    image: str = ""
    by_operator: bool = False

    @property
    def spec(self) -> dict[str, Any]:
        """`spec.rebalance` of the SecondaryScheduler."""
        return {"mode": self.mode, **({"image": self.image} if self.image else {}), **self.settings}

    @property
    def hash(self) -> str:
        """By which the operator reports that this is in effect."""
        return read_rebalancer_spec(self.spec).hash


def plan_rebalancer(
    settings: RebalancerSettings, configuration: Configuration, *, pruned_by: str = ""
) -> tuple[RebalancerPlan | None, list[Problem]]:
    """Return what is to be installed, and the problems; None where nothing is, or where one of them is an error.

    Args:
        settings: the setting.
        configuration: of the scheduler.
        pruned_by: why no operator can run it, as a clause; "" if one of ours can.
    """
    problems = [Problem((KEY, *loc), message) for loc, message in settings.check()]
    if settings.mode == "Off":
        if settings.model_fields_set - {"mode"}:
            message = "Off, so the other keys have no effect; set it to Predictive, or remove them"
            problems.append(Problem((KEY, "mode"), message, severity="warning"))
        return None, problems
    problems += (Problem((KEY, "mode"), message) for message in rebalancer_obstacles(configuration))
    if settings.run_by == "Operator" and pruned_by:
        message = f"must be Program: {pruned_by}, so spec.rebalance would be pruned; set it so, or leave it out"
        problems.append(Problem((KEY, "runBy"), message))
    if problems:
        return None, problems
    by_operator = settings.run_by != "Program" and not pruned_by
    chosen = settings.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=_OWN)
    return RebalancerPlan(settings.mode, chosen, settings.image or "", by_operator), []


def pruned_by(mode: str, *, upstream: bool) -> str:
    """Return why the API server would drop `spec.rebalance` with an install mode, as a clause; "" if it would not.

    Whether the CRD of an operator that is there already has the field is seen on the cluster only.
    """
    if mode == "direct":
        return "mode direct makes no SecondaryScheduler"
    return "the CRD of upstream's operator has no such field" if upstream else ""
