"""Compatibility of a stack's scheduler image with operator and cluster."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.catalog import Loc
from scheduler.config import (
    ClusterVersions,
    Configuration,
    Flavour,
    LeaseFlags,
    OperatorRelease,
    Problem,
    incompatibilities,
    kubernetes_minor,
    lease_timings,
    operator_of,
    operator_of_csv,
    overridden_lease_keys,
)
from stacks.settings import StackSettings

_SCHEDULER_NAME = "secondary-scheduler"


def cluster_minor(settings: StackSettings) -> int | None:
    """Return the minor version of the cluster's Kubernetes 1.x, which the stack names, or of the OpenShift that it
    names; None where that is not known."""
    return kubernetes_minor(_versions(settings))


def _versions(settings: StackSettings) -> ClusterVersions:
    return ClusterVersions(settings.cluster.kubernetes_version, settings.cluster.openshift_version)


def check_versions(settings: StackSettings, flavour: Flavour) -> list[Problem]:
    """Return the known incompatibilities among operator, scheduler image and cluster."""
    cluster = _versions(settings)
    version_key = "openshiftVersion" if settings.cluster.openshift_version else "kubernetesVersion"
    by_image = settings.install_mode == "manifests"
    places: dict[str, Loc] = {
        "operator": ("operatorImage",) if by_image else ("operator", "startingCSV"),
        "scheduler": ("schedulerImage",),
        "cluster": ("cluster", version_key),
    }
    return [
        Problem(places[incompatibility.subject], incompatibility.message)
        for incompatibility in incompatibilities(
            cluster, operator_of_stack(settings), settings.scheduler_image, flavour
        )
    ]


def operator_of_stack(settings: StackSettings) -> OperatorRelease | None:
    """Return the operator that the stack installs or relies on; None without an operator, or one that is not known."""
    mode, chosen = settings.install_mode, settings.operator
    if mode == "direct":
        return None
    if mode == "manifests":
        return operator_of(settings.operator_image or "")
    if not chosen.is_upstream(mode):
        return OperatorRelease(True)
    return operator_of_csv(chosen.starting_csv or "") or OperatorRelease(False)


def overridden_key_warnings(settings: StackSettings, configuration: Configuration) -> Iterator[Problem]:
    """Yield a warning about the configuration file's `leaderElection` keys that the operator's flags override."""
    timings = lease_timings(operator_of_stack(settings))
    if timings is None or settings.configuration_file is None:
        return
    names = {"resourceName": _SCHEDULER_NAME, "resourceNamespace": settings.namespace}
    flags = LeaseFlags.model_validate({**names, **timings})
    keys = overridden_lease_keys(configuration.data, flags)
    if keys:
        listed = ", ".join(f"leaderElection.{key}" for key in keys)
        message = (
            f"{listed} in {settings.configuration_file} {'have' if len(keys) > 1 else 'has'} no effect: the scheduler "
            "is started with --leader-elect flags, which take precedence; remove these keys"
        )
        yield Problem(("configurationFile",), message)


def credential_warnings(settings: StackSettings, flavour: Flavour) -> Iterator[Problem]:
    """Yield a warning about credentials that upstream's operator neither mounts nor permits."""
    provider = settings.metric_provider
    if settings.install_mode == "direct" or not settings.operator.is_upstream(settings.install_mode):
        return
    if flavour.is_ours and provider is not None and provider.credentials is not None:
        message = (
            "have no effect: upstream's operator neither mounts a token nor permits the ServiceAccount's, so pods are "
            "placed without load; use installMode manifests, catalog or direct"
        )
        yield Problem(("metricProvider", "credentials"), message)
