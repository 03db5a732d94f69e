"""PodGroups and their pods for the engine's tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from scheduler.catalog import Watch
from scheduler.engine import HistoryLimits
from scheduler.engine.extending import Extenders
from scheduler.framework import PodInfo
from scheduler.kube.model import POD_GROUP_LABEL, EventType, ObjectMeta, PodGroup, PodGroupSpec
from tests.unit.scheduler.engine.fakes import Engine, FakeApi

PODGROUPS = Watch("scheduling.x-k8s.io/v1alpha1", "podgroups")


_EVERYWHERE = "{multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}}"


def configuration(
    compatibility: str = "safe", profiles: int = 1, kubernetes: str = "1.34", plugins: str = _EVERYWHERE, **args: Any
) -> str:
    """Profiles `secondary-scheduler`, `second-scheduler` with Coscheduling, at all points or as `plugins` says, and its
    args."""
    names = ["secondary-scheduler", "second-scheduler"][:profiles]
    settings = "".join(f"\n          {key}: {value}" for key, value in {"permitWaitingTimeSeconds": 60, **args}.items())
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
    for name in names:
        text += f"""
  - schedulerName: {name}
    plugins: {plugins}
    pluginConfig:
      - name: SecondarySchedulerOptions
        args: {{compatibility: {compatibility}, kubernetesVersion: "{kubernetes}"}}
      - name: Coscheduling
        args:{settings}
"""
    return text


class GangEngine(Engine):
    """The engine with Coscheduling."""

    def __init__(
        self,
        compatibility: str = "safe",
        profiles: int = 1,
        api: FakeApi | None = None,
        extenders: Extenders | None = None,
        history: HistoryLimits | None = None,
        **args: Any,
    ) -> None:
        super().__init__(api, configuration(compatibility, profiles, **args), extenders=extenders, history=history)
        self.podgroups = self.object_inputs(PODGROUPS)

    def add_group(
        self, name: str, minimum: int, *, event: EventType = EventType.ADDED, version: int = 1, **spec: Any
    ) -> PodGroup:
        meta = ObjectMeta(
            name=name, namespace="ns", uid=f"{name}-uid", resource_version=str(version),
            creation_timestamp=spec.pop("created", "2026-01-01T00:00:00Z"), annotations=spec.pop("annotations", {}),
        )  # fmt: skip
        group = PodGroup(meta, PodGroupSpec(minimum, **spec))
        self.podgroups.apply([(event, group)])
        return group

    def add_member(self, name: str, group: str, **fields: Any) -> PodInfo:
        metadata = fields.pop("metadata", {})
        metadata = {**metadata, "labels": {**metadata.get("labels", {}), POD_GROUP_LABEL: group}}
        return self.add_pod(name, metadata=metadata, **fields)

    def add_members(self, group: str, count: int, **fields: Any) -> list[PodInfo]:
        return [self.add_member(f"{group}-{number}", group, **fields) for number in range(count)]

    @property
    def bound(self) -> set[str]:
        return {name for name, _, _ in self.api.bindings}

    @property
    def messages(self) -> list[str]:
        """Every condition written."""
        written = (patch["status"] for _, patch in self.api.patches if "status" in patch)
        return [status["conditions"][0]["message"] for status in written]

    def message(self, name: str) -> str:
        """The last condition written about a pod; "" before the first."""
        latest = ""
        for path, patch in self.api.patches:
            if f"/pods/{name}/status" in path:
                latest = patch["status"]["conditions"][0]["message"]
        return latest


Start = Callable[..., Awaitable[GangEngine]]
