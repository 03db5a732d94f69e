"""What a simulation's configuration says about the pods that it decides."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.catalog import nearest_kubernetes
from scheduler.config import Configuration
from secondary_scheduler.errors import CommandError, ExitCode
from secondary_scheduler.simulation.report import Report


def taken_over(options: Sequence[str], configuration: Configuration) -> dict[str, str]:
    """Return the schedulers that `--as-scheduler` names, each with the profile that decides about its pods.

    Raises:
        CommandError: the profile is missing or unknown.
    """
    profiles = configuration.scheduler_names
    by_name = {}
    for option in options:
        name, equals, profile = option.partition("=")
        if not equals and len(profiles) > 1:
            known = ", ".join(profiles)
            raise CommandError(
                f"--as-scheduler {name}: the configuration has several profiles ({known}); name one: "
                f"--as-scheduler {name}={profiles[0]}",
                ExitCode.USAGE,
            )
        profile = profile if equals else profiles[0]
        if profile not in profiles:
            raise CommandError(
                f"--as-scheduler {option}: the configuration has no profile {profile}; it has {', '.join(profiles)}",
                ExitCode.USAGE,
            )
        by_name[name] = profile
    return by_name


def note_versions(configuration: Configuration, report: Report) -> None:
    """Say which version of kube-scheduler decides, and why that."""
    for profile in configuration.profiles:
        minor = configuration.cluster_minor
        if profile.options.kubernetes_version is not None:
            other = minor is not None and nearest_kubernetes(minor).name != profile.kubernetes.name
            origin = f"its kubernetesVersion{f', though the cluster is 1.{minor}' if other else ''}"
        elif minor is not None:
            origin = "the cluster's version"
        else:
            origin = "the default, as the snapshot names no version"
        report.note(f"{profile.scheduler_name} decides as kube-scheduler {profile.kubernetes.name}: {origin}")
