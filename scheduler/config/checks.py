"""Checks of a decoded configuration that need more than one field, worded as kube-scheduler words them."""

from collections.abc import Iterator

from scheduler.catalog import ExtensionPoint, Loc
from scheduler.config.document import Document
from scheduler.config.expand import EffectiveProfile
from scheduler.config.extenders import check_extenders
from scheduler.config.flavours import Flavour
from scheduler.config.model import INT32, KubeSchedulerConfiguration, KubeSchedulerProfile
from scheduler.config.problems import Problem

_PLACEMENTS = "percentageOfPlacementsToScore"
# Upstream's words from 1.38 on, where the gate is off: here it is never on.
_PLACEMENTS_FORBIDDEN = f"Forbidden: {_PLACEMENTS} requires TopologyAwareWorkloadScheduling feature gate to be enabled"


def check_top_level(document: Document, model: KubeSchedulerConfiguration, flavour: Flavour) -> Iterator[Problem]:
    """Yield the problems outside the profiles."""

    def problem(message: str, *loc: str | int) -> Problem:
        return document.problem(loc, message)

    if not 0 < model.parallelism <= INT32:
        yield problem(
            f"Invalid value: {model.parallelism}: should be an integer value greater than zero", "parallelism"
        )
    percentages: list[tuple[Loc, int | None]] = []
    scopes: list[tuple[Loc, KubeSchedulerConfiguration | KubeSchedulerProfile]] = [((), model)]
    scopes += [(("profiles", index), profile) for index, profile in enumerate(model.profiles)]
    for loc, scope in scopes:
        percentages.append(((*loc, "percentageOfNodesToScore"), scope.percentage_of_nodes_to_score))
        percentages.append(((*loc, _PLACEMENTS), scope.percentage_of_placements_to_score))
    for loc, percentage in percentages:
        if percentage is not None and not 0 <= percentage <= 100:
            yield problem(f"Invalid value: {percentage}: not in valid range [0-100]", *loc)
        elif percentage is not None and loc[-1] == _PLACEMENTS and flavour.is_ours:
            yield document.problem(loc, _PLACEMENTS_FORBIDDEN, hint="remove it")
    if model.pod_initial_backoff_seconds <= 0:
        yield problem(
            f"Invalid value: {model.pod_initial_backoff_seconds}: must be greater than 0", "podInitialBackoffSeconds"
        )
    if model.pod_max_backoff_seconds < model.pod_initial_backoff_seconds:
        message = (
            f"Invalid value: {model.pod_max_backoff_seconds}: must be greater than or equal to PodInitialBackoffSeconds"
        )
        yield problem(message, "podMaxBackoffSeconds")
    if model.client_connection.burst < 0:
        yield problem(
            f"Invalid value: {model.client_connection.burst}: must be non-negative", "clientConnection", "burst"
        )
    yield from check_extenders(document, model, flavour)
    yield from _check_leader_election(document, model)


def _check_leader_election(document: Document, model: KubeSchedulerConfiguration) -> Iterator[Problem]:
    election = model.leader_election
    if not election.leader_elect:
        return
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for field, seconds in durations.items():
        if seconds <= 0:
            yield document.problem(("leaderElection", field), "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        yield document.problem(("leaderElection", "leaseDuration"), "LeaseDuration must be greater than RenewDeadline")
    if election.resource_lock != "leases":
        message = f'Invalid value: "{election.resource_lock}": resourceLock value must be "leases"'
        yield document.problem(("leaderElection", "resourceLock"), message)
    for field, text in (("resourceName", election.resource_name), ("resourceNamespace", election.resource_namespace)):
        if not text:
            yield document.problem(("leaderElection", field), f"{field} is required")


def check_profiles(document: Document, profiles: list[EffectiveProfile], *, all_sets: bool) -> Iterator[Problem]:
    """Yield the problems between profiles: their names, and the queue they share, if all plugin sets were decoded."""
    seen: set[str] = set()
    for index, profile in enumerate(profiles):
        if profile.scheduler_name and profile.scheduler_name in seen:
            loc: Loc = ("profiles", index, "schedulerName")
            yield document.problem(loc, f'Duplicate value: "{profile.scheduler_name}"')
        seen.add(profile.scheduler_name)
        if not all_sets:
            continue
        sorters = profile.plugins(ExtensionPoint.QUEUE_SORT)
        if sorters != profiles[0].plugins(ExtensionPoint.QUEUE_SORT):
            message = "has to match for all profiles: pods of all profiles share one queue"
            yield document.problem(("profiles", index, "plugins", "queueSort"), message)
        elif any(profile.args(sorter.name) != profiles[0].args(sorter.name) for sorter in sorters):
            message = f"args of {sorters[0].name} have to match for all profiles: their pods share one queue"
            yield document.problem(("profiles", index, "pluginConfig"), message)
