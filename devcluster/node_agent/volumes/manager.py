"""The volumes of one pod on disk: made before its containers start, refreshed while they run."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from devcluster.node_agent.cluster import ClusterData
from devcluster.node_agent.objects import (
    ContainerConfigError,
    FieldError,
    NotSyncedError,
    Obj,
    all_containers,
)
from devcluster.node_agent.sandbox import VolumeMount
from devcluster.node_agent.volumes.sources import (
    MissingSourceError,
    TokenManager,
    VolumeContext,
    token_requests,
    volume_payload,
)
from devcluster.node_agent.volumes.writer import FileContent, write_payload
from scheduler.kube.client import KubeError


class MountError(RuntimeError):
    """A volume cannot be set up now; worded as kubelet's FailedMount event."""


class TextRewriter(Protocol):
    """Knows how a container must read a file of a ConfigMap volume."""

    def volume_text(self, mounts: Sequence[VolumeMount], data: bytes) -> bytes:
        """See ``containers.ContainerRuntime``."""


class VolumeManager:
    """Keeps the volumes of a pod; ``directory`` holds one directory per volume."""

    def __init__(
        self,
        directory: Path,
        rewriter: TextRewriter,
        store: ClusterData,
        tokens: TokenManager,
        allocatable: dict[str, str],
        group: int | None = None,
    ) -> None:
        """``group``: who may read the files beside their owner, and write to emptyDirs; needs the right to chown."""
        self._directory = directory
        self._rewriter = rewriter
        self._group = group
        self._store = store
        self._tokens = tokens
        self._allocatable = allocatable

    async def refresh(self, pod: Obj) -> None:
        """Bring every volume up to date; MountError for the first that fails, with those before it up to date."""
        for volume in pod["spec"].get("volumes") or []:
            try:
                tokens = await self._tokens.tokens(set(token_requests(volume)))
                self._write(volume, pod, VolumeContext(pod, self._store, tokens, self._allocatable))
            except (MissingSourceError, NotSyncedError, FieldError, KubeError, OSError, ValueError) as error:
                raise MountError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error

    def context(self, pod: Obj) -> VolumeContext:
        """What env variables are computed from."""
        return VolumeContext(pod, self._store, {}, self._allocatable)

    def _write(self, volume: Obj, pod: Obj, context: VolumeContext) -> None:
        target = self._directory / volume["name"]
        payload = volume_payload(volume, context)
        if payload is None:
            target.mkdir(parents=True, exist_ok=True)
            if self._group is not None:
                os.chown(target, -1, self._group)
            target.chmod(0o777 if self._group is None else 0o2777)
            return
        if "configMap" in volume:
            mounts = self._mounts_of_all(pod)
            payload = {
                path: FileContent(self._rewriter.volume_text(mounts, content.data), content.mode)
                for path, content in payload.items()
            }
        write_payload(target, payload, self._group)

    def _mounts_of_all(self, pod: Obj) -> list[VolumeMount]:
        return [mount for container in all_containers(pod["spec"]) for mount in self.mounts(pod, container)]

    def mounts(self, pod: Obj, container: Obj) -> tuple[VolumeMount, ...]:
        """What a container mounts. API data is read-only whatever the mount says, as for a kubelet."""
        kinds = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
        return tuple(self._mount(mount, kinds[mount["name"]]) for mount in container.get("volumeMounts") or [])

    def _mount(self, mount: Obj, volume: Obj) -> VolumeMount:
        source = self._directory / mount["name"]
        sub_path = mount.get("subPath") or ""
        if sub_path:
            # Resolved now, so that the mount keeps showing this version: kubelet does not update subPath mounts either.
            source = self._within(mount)
        read_only = bool(mount.get("readOnly")) or "emptyDir" not in volume
        return VolumeMount(mount["mountPath"], str(source), read_only)

    def _within(self, mount: Obj) -> Path:
        """What a subPath leads to. Raises ContainerConfigError where a link in it, made by a pod, leaves the volume."""
        volume = Path(os.path.realpath(self._directory / mount["name"]))
        path = Path(os.path.realpath(volume / (mount.get("subPath") or "")))
        if not path.is_relative_to(volume):
            raise ContainerConfigError(
                f'failed to prepare subPath for volumeMount "{mount["name"]}" : subpath leads out of the volume'
            )
        return path

    def make_sub_paths(self, pod: Obj, containers: Sequence[Obj]) -> None:
        """Create the directories that subPath mounts of emptyDirs name and that do not exist yet."""
        empty = {volume["name"] for volume in pod["spec"].get("volumes") or [] if "emptyDir" in volume}
        for container in containers:
            for mount in container.get("volumeMounts") or []:
                if mount["name"] not in empty:
                    continue
                path = self._within(mount)
                if not path.exists():
                    path.mkdir(parents=True)
                    path.chmod(0o777)
