"""A rebalancer beside the scheduler: the setting, the rules about it, and what follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from scheduler.catalog import OPERAND, Loc
from scheduler.config import Configuration, Problem, RebalanceSettings

from .values import Image

KEY = "rebalance"
_OWN = {"mode", "image"}


class RebalancerSettings(RebalanceSettings):
    """What becomes of plans, and what may be moved: the other keys are those of the file of `rebalance plan`.

    Attributes:
        mode: Off: no rebalancer is installed. Predictive: it evicts with dryRun, so that nothing changes. Automatic: it
            evicts.
        image: this project's image; default: the scheduler's.
    """

    mode: Literal["Off", "Predictive", "Automatic"] = "Off"
    image: Image | None = None


@dataclass(frozen=True)
class RebalancerPlan:
    """What is to be installed.

    Attributes:
        mode: Predictive or Automatic.
        settings: what may be moved, as the rebalancer reads it; only what was set.
        image: "" for the scheduler's.
    """

    mode: str
    settings: Mapping[str, Any]
    image: str = ""


def rebalancer_name(operand: str = OPERAND) -> str:
    """Return the name of a scheduler's rebalancer: of all its objects, its Lease and its status."""
    return f"{operand}-rebalancer"


def plan_rebalancer(
    settings: RebalancerSettings, configuration: Configuration
) -> tuple[RebalancerPlan | None, list[Problem]]:
    """Return what is to be installed, and the problems; None where nothing is, or where one of them is an error.

    Args:
        settings: the setting.
        configuration: of the scheduler.
    """
    problems = [Problem((KEY, *loc), message) for loc, message in settings.check()]
    if settings.mode == "Off":
        if settings.model_fields_set - {"mode"}:
            message = "Off, so the other keys have no effect; set it to Predictive, or remove them"
            problems.append(Problem((KEY, "mode"), message, severity="warning"))
        return None, problems
    problems += _impossible(configuration)
    if problems:
        return None, problems
    chosen = settings.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=_OWN)
    return RebalancerPlan(settings.mode, chosen, settings.image or ""), []


def _impossible(configuration: Configuration) -> Iterator[Problem]:
    """What a rebalancer could never do anything about: it would be installed, and move nothing."""
    at: Loc = (KEY, "mode")
    if not configuration.flavour.is_ours:
        message = (
            f"needs this project's scheduler: {configuration.flavour.name} does not say which configuration it runs,"
            " without which nothing is moved"
        )
        yield Problem(at, message)
        return
    arguments = (profile.args(name) for profile in configuration.profiles for name in profile.enabled)
    sources = {key for args in arguments if args is not None and (key := args.source_key()) is not None}
    if not sources:
        message = "needs a plugin that reads the nodes' load, such as TargetLoadPacking: enable one, or set mode to Off"
        yield Problem(at, message)
    elif len(sources) > 1:
        message = f"needs one load source for all profiles, and they read {len(sources)}"
        yield Problem(at, message)
