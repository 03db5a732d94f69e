"""Which pods are moved to the scheduler as they are created: the settings, the rules between them, what follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from scheduler.catalog import OPT_IN_LABEL, OPT_IN_VALUE, Loc, MutatingPolicies, mutating_policies
from scheduler.config import Problem, SettingsModel

from .selectors import LabelSelectorSettings, LabelValue
from .values import Subdomain

KEY = "optIn"
DEFAULT_SCHEDULER = "default-scheduler"
Guard = Literal["Off", "Warn", "Deny"]
_MAX_NAME_LENGTH = 180
"""Of a schedulerName, which is part of the policy's name."""


class OptInProfileSettings(SettingsModel):
    """Which namespaces one of several profiles gets.

    Attributes:
        scheduler_name: of the profile.
        label_value: value of the namespaces' label secondary-scheduler.io/pods.
        namespace_selector: instead of label_value: any labels of the namespaces.
        pod_selector: labels that the pods must have, too.
    """

    scheduler_name: Subdomain
    label_value: LabelValue | None = None
    namespace_selector: LabelSelectorSettings | None = None
    pod_selector: LabelSelectorSettings | None = None


class OptInSettings(SettingsModel):
    """Which pods get the scheduler's name as they are created.

    Attributes:
        mechanism: policy: a MutatingAdmissionPolicy writes the name; none: only pods that name the scheduler use it.
        namespace_selector: labels of the namespaces; default: secondary-scheduler.io/pods is "true".
        pod_selector: labels that the pods must have, too.
        exclude_namespaces: names of namespaces whose pods are never moved, in addition to the system's and the
            installation's.
        guard: what happens to a pod or template that names the scheduler in another namespace: Off (nothing), Warn or
            Deny. Except with Off, the selected namespaces warn of a name that no known scheduler has.
        other_schedulers: names of further schedulers in the cluster, which cause no warning.
        profiles: which namespaces each profile gets, where there are several profiles.
    """

    mechanism: Literal["policy", "none"] = "none"
    namespace_selector: LabelSelectorSettings | None = None
    pod_selector: LabelSelectorSettings | None = None
    exclude_namespaces: tuple[Subdomain, ...] = Field((), max_length=256)
    guard: Guard = "Warn"
    other_schedulers: tuple[Subdomain, ...] = Field((), max_length=64)
    profiles: tuple[OptInProfileSettings, ...] = Field((), max_length=32)


@dataclass(frozen=True)
class OptInTarget:
    """Pods that one profile gets.

    Attributes:
        scheduler_name: what is written into them.
        namespaces: labels of their namespaces.
        pods: labels that they must have themselves; None: any.
    """

    scheduler_name: str
    namespaces: LabelSelectorSettings
    pods: LabelSelectorSettings | None = None


@dataclass(frozen=True)
class OptInPlan:
    """What is to be created.

    Attributes:
        api: how the cluster has MutatingAdmissionPolicies.
        targets: at least one; no namespace is selected by two.
        known: schedulerNames that somebody serves.
        exclude_namespaces: in addition to those of the system and of the installation.
        guard: against pods of other namespaces that name the scheduler.
    """

    api: MutatingPolicies
    targets: tuple[OptInTarget, ...]
    known: tuple[str, ...]
    exclude_namespaces: tuple[str, ...] = ()
    guard: Guard = "Warn"


def plan_opt_in(
    settings: OptInSettings, scheduler_names: Sequence[str], minor: int | None
) -> tuple[OptInPlan | None, list[Problem]]:
    """Return what is to be created, and the problems; None where nothing is, or where one of them is an error.

    Args:
        settings: the setting.
        scheduler_names: of the profiles that the scheduler serves.
        minor: of the cluster's Kubernetes; None where it is not known.
    """
    if settings.mechanism == "none":
        if settings != OptInSettings():
            message = "none, so the other keys have no effect; set it to policy, or remove them"
            return None, [Problem((KEY, "mechanism"), message, severity="warning")]
        return None, []
    targets, problems = _targets(settings, scheduler_names)
    api = mutating_policies(minor)
    if not api.version:
        problems.append(Problem((KEY, "mechanism"), f"policy is not possible: {api.note}"))
    elif api.note:
        problems.append(Problem((KEY, "mechanism"), api.note, severity="warning"))
    if any(problem.severity == "error" for problem in problems):
        return None, problems
    known = tuple(dict.fromkeys([DEFAULT_SCHEDULER, *scheduler_names, *settings.other_schedulers]))
    excluded = tuple(dict.fromkeys(settings.exclude_namespaces))
    return OptInPlan(api, tuple(targets), known, excluded, settings.guard), problems


def _targets(settings: OptInSettings, scheduler_names: Sequence[str]) -> tuple[list[OptInTarget], list[Problem]]:
    if settings.profiles:
        targets = [_target_of(profile) for profile in settings.profiles]
        return targets, list(_wrong_profiles(settings, targets, scheduler_names))
    if len(scheduler_names) > 1:
        listed = ", ".join(scheduler_names)
        message = f"missing: there are several profiles ({listed}); list schedulerName and labelValue of each"
        return [], [Problem((KEY, "profiles"), message)]
    selector = settings.namespace_selector or _labelled(OPT_IN_VALUE)
    targets = [OptInTarget(name, selector, settings.pod_selector) for name in scheduler_names]
    return targets, [problem for name in scheduler_names for problem in _wrong_name(name, (KEY, "mechanism"))]


def _target_of(profile: OptInProfileSettings) -> OptInTarget:
    selector = profile.namespace_selector or _labelled(profile.label_value or OPT_IN_VALUE)
    return OptInTarget(profile.scheduler_name, selector, profile.pod_selector)


def _labelled(value: str) -> LabelSelectorSettings:
    return LabelSelectorSettings.model_validate({"matchLabels": {OPT_IN_LABEL: value}})


def _wrong_profiles(
    settings: OptInSettings, targets: Sequence[OptInTarget], scheduler_names: Sequence[str]
) -> Iterator[Problem]:
    for name, value in (("namespaceSelector", settings.namespace_selector), ("podSelector", settings.pod_selector)):
        if value is not None:
            yield Problem((KEY, name), "has no effect beside profiles; set it in the entries of optIn.profiles")
    for index, (profile, target) in enumerate(zip(settings.profiles, targets, strict=True)):
        place: Loc = (KEY, "profiles", index)
        if (profile.label_value is None) == (profile.namespace_selector is None):
            yield Problem(place, "must hold either labelValue or namespaceSelector")
            continue
        if target.scheduler_name not in scheduler_names:
            served = ", ".join(scheduler_names)
            message = f"no profile serves {target.scheduler_name}, so its pods would wait forever; served: {served}"
            yield Problem((*place, "schedulerName"), message)
        yield from _wrong_name(target.scheduler_name, (*place, "schedulerName"))
        for earlier in targets[:index]:
            if earlier.scheduler_name == target.scheduler_name:
                yield Problem((*place, "schedulerName"), f"{target.scheduler_name} has an entry already; join the two")
            elif not earlier.namespaces.excludes(target.namespaces):
                message = (
                    f"can select the same namespaces as the entry of {earlier.scheduler_name}, and a pod has one "
                    "scheduler; give each profile its own labelValue, or selectors with different values of one label"
                )
                yield Problem(place, message)


def _wrong_name(name: str, place: Loc) -> Iterator[Problem]:
    if name == DEFAULT_SCHEDULER:
        yield Problem(place, f"pods have {name} anyway; nothing has to opt in")
    elif len(name) > _MAX_NAME_LENGTH:
        yield Problem(place, f"the schedulerName has {len(name)} characters; with optIn at most {_MAX_NAME_LENGTH}")
