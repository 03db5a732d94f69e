"""Which version of kube-scheduler the profiles behave as, and whether the cluster still has the version they follow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from scheduler.catalog import KUBERNETES_VERSIONS, minor_of, nearest_kubernetes
from scheduler.config import Configuration, EffectiveProfile
from scheduler.kube.client import KubeClient, KubeError, server_version

_UNKNOWN_SECONDS: Final = 2.0
_FIRST_SECONDS: Final = 10.0
"""By then one of the replicas that started together leads."""
_KNOWN_SECONDS: Final = 300.0
"""How often the cluster's version is read. Clusters are upgraded by people, in minutes."""
_READ_SECONDS: Final = 10.0
log = structlog.get_logger(component="version")

Publish = Callable[[str], None]
"""Says on what the profiles differ from the cluster from now on; "" once they do not."""
LeadersMinor = Callable[[], Awaitable[int | None]]
"""Reads which minor version the leader follows; None where this process leads itself, or it is not known."""


async def _nobody_leads() -> int | None:
    return None


class VersionUnknownAtStartError(ValueError):
    """This process, which could not read the cluster's version at its start, behaves as another one."""


class LeaderIsOlderError(ValueError):
    """The replica that leads follows an older version of the cluster than this process, which does not lead."""


def describe_versions(configuration: Configuration) -> dict[str, object]:
    """Return the version that each profile behaves as, by scheduler name, and the cluster's, as /configz shows them:
    who reads upstream's expects an object of a kind under each of its keys."""
    return {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "SchedulerBehavior",
        "kubernetesVersion": {profile.scheduler_name: profile.kubernetes.name for profile in configuration.profiles},
        "clusterVersion": _version_text(configuration.cluster_minor),
    }


def versions_text(configuration: Configuration) -> str:
    """Return the version that the profiles behave as, such as `1.36`; where they differ, `first=1.34,second=1.36`."""
    versions = {profile.scheduler_name: profile.kubernetes.name for profile in configuration.profiles}
    if len(set(versions.values())) == 1:
        return next(iter(versions.values()))
    return ",".join(f"{name}={version}" for name, version in versions.items())


def _version_text(minor: int | None) -> str:
    return "unknown" if minor is None else f"1.{minor}"


class VersionFollower:
    """Says what the profiles behave as, and when the cluster has become something else meanwhile."""

    def __init__(
        self,
        client: KubeClient,
        configuration: Configuration,
        publish: Publish,
        leaders_minor: LeadersMinor = _nobody_leads,
        *,
        unknown_seconds: float = _UNKNOWN_SECONDS,
        first_seconds: float = _FIRST_SECONDS,
        known_seconds: float = _KNOWN_SECONDS,
    ) -> None:
        """Configure; `publish` is called on the loop at each change, the seconds are the waits before readings: while
        the version is not known, before the first one where it is, and between two others."""
        self._client = client
        self._publish = publish
        self._is_behind = False
        self._minor = configuration.cluster_minor
        self._profiles = configuration.profiles
        self._leaders_minor = leaders_minor
        self._unknown_seconds, self._known_seconds = unknown_seconds, known_seconds
        self._first_seconds = first_seconds

    def announce(self) -> None:
        """Log what each profile behaves as, and why; a warning where the cluster is newer than any of the table."""
        newest = max(KUBERNETES_VERSIONS)
        if self._minor is not None and self._minor > newest:
            log.warning(
                "the cluster is newer than all versions that this scheduler can behave as",
                cluster=_version_text(self._minor),
                newest=_version_text(newest),
            )
        for profile in self._profiles:
            pinned = profile.options.kubernetes_version is not None
            origin = "kubernetesVersion" if pinned else "default" if self._minor is None else "cluster"
            log.info(
                "behaves as kube-scheduler",
                version=profile.kubernetes.name,
                because_of=origin,
                cluster=_version_text(self._minor),
                profile=profile.scheduler_name,
            )

    async def run(self) -> None:
        """Read the cluster's version again and again.

        Raises:
            VersionUnknownAtStartError: it was not known at the start, and only a new process can follow it.
            LeaderIsOlderError: another replica leads by an older one, and only a new process can follow that.
        """
        seconds = self._first_seconds
        while True:
            await asyncio.sleep(self._unknown_seconds if self._minor is None else seconds)
            self._compare_with_leader(await self._leaders_minor())
            seconds = self._known_seconds
            try:
                minor = minor_of(await server_version(self._client, timeout=_READ_SECONDS))
            except KubeError:
                # Whether the API server answers is for those to say who need it.
                continue
            if minor is not None and minor != self._minor:
                self._compare(minor)
                self._minor = minor

    def _unlike(self, minor: int) -> list[EffectiveProfile]:
        """Profiles that follow the cluster, and do not behave as a version of it."""
        nearest = nearest_kubernetes(minor)
        return [
            profile
            for profile in self._profiles
            if profile.options.kubernetes_version is None and profile.kubernetes != nearest
        ]

    def _compare_with_leader(self, minor: int | None) -> None:
        newer = (
            [] if minor is None else [profile for profile in self._unlike(minor) if profile.kubernetes.minor > minor]
        )
        if newer:
            raise LeaderIsOlderError(
                f"the replica that leads follows Kubernetes 1.{minor}: profile {newer[0].scheduler_name} behaves as "
                f"kube-scheduler {newer[0].kubernetes.name} until this process starts again"
            )

    def _compare(self, minor: int) -> None:
        behind = self._unlike(minor)
        if not behind:
            if self._is_behind:
                self._is_behind = False
                log.info("the profiles behave as the cluster's version again", cluster=_version_text(minor))
                self._publish("")
            return
        name, version = behind[0].scheduler_name, behind[0].kubernetes.name
        if self._minor is None:
            raise VersionUnknownAtStartError(
                f"the cluster is Kubernetes 1.{minor}, which could not be read at the start: profile {name} behaves as "
                f"kube-scheduler {version} until this process starts again"
            )
        note = (
            f"The cluster is Kubernetes 1.{minor} now, and was 1.{self._minor}: profile {name} behaves as "
            f"kube-scheduler {version} until the scheduler is restarted"
        )
        log.warning("the cluster has another version now", cluster=_version_text(minor), version=version, profile=name)
        self._is_behind = True
        self._publish(note)
