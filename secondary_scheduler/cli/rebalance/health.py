"""The health of the scheduler that serves a configuration's profiles, as a cluster shows it."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.config import Configuration
from scheduler.kube.client import ClientConfig
from secondary_scheduler.clusterstatus.installations import CallerLimits, Installations, installations_of
from secondary_scheduler.clusterstatus.instances import Instance, configuration_of, instances_of
from secondary_scheduler.rebalancing import ObservedScheduler, SchedulerHealth, scheduler_health


def read_health(
    config: ClientConfig, configuration: Configuration, now: float, say: Callable[[str], None]
) -> SchedulerHealth | None:
    """Return the health of the scheduler of a configuration; None where the caller may not read enough to tell.

    Args:
        config: the cluster.
        configuration: what the plan is made with.
        now: seconds since the epoch.
        say: gets what the caller may not read.

    Raises:
        KubeError: the API server does not answer.
    """
    limits = CallerLimits()
    read = installations_of(config, None, limits, everywhere=True, command="rebalance")
    return health_in(read, limits, configuration, now, say)


def health_in(
    read: Installations,
    limits: CallerLimits,
    configuration: Configuration,
    now: float,
    say: Callable[[str], None],
) -> SchedulerHealth | None:
    """Return the same from what was read."""
    names = frozenset(configuration.scheduler_names)
    instance = next((each for each in instances_of(read) if names & _served(each, read)), None)
    if instance is None and limits.lines:
        for line in limits.lines:
            say(f"scheduler not asked: {line}")
        return None
    if instance is None:
        observed = ObservedScheduler(f"a scheduler of {', '.join(sorted(names)[:3])}")
    else:
        title = "/".join(instance.place)
        # One that was found was readable, in whatever namespace.
        if not instance.lease_readable or (instance.scheduler is None and not instance.deployment_readable):
            say(f"scheduler {title} not asked: this user needs to list leases and deployments in its namespace")
            return None
        deployment = instance.scheduler.deployment if instance.scheduler is not None else None
        observed = ObservedScheduler(title, deployment, instance.lease, instance.resource, instance.elects)
    return scheduler_health(observed, planned=configuration.hash, now=now)


def _served(instance: Instance, read: Installations) -> frozenset[str]:
    configuration = configuration_of(instance, read)
    return frozenset(configuration.scheduler_names) if isinstance(configuration, Configuration) else frozenset()
