"""Rejected and gated pods, filed by what they wait for: an event finds those that it may help without asking each."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from scheduler.state.queued import QueuedPod


class Group(NamedTuple):
    """Pods of a scheduler name that one plugin rejected or gates, and that await a name; "" for whatever they await."""

    scheduler: str
    plugin: str
    awaited: str = ""


class Parked:
    """The pods, in the order in which they came. A pod is in every group that `groups_of` tells of it at `put`."""

    def __init__(self, groups_of: Callable[[QueuedPod], Iterable[Group]]) -> None:
        self._groups_of = groups_of
        self._pods: dict[str, QueuedPod] = {}
        self._filed: dict[str, Sequence[Group]] = {}
        self._groups: dict[Group, dict[str, QueuedPod]] = {}
        self._by_plugin: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> QueuedPod | None:
        """Return a pod."""
        return self._pods.get(uid)

    def values(self) -> Iterator[QueuedPod]:
        """Yield every pod."""
        return iter(self._pods.values())

    def put(self, queued: QueuedPod) -> None:
        """Take a pod in, or file one anew that is here."""
        uid = queued.pod.uid
        self._unfile(uid)
        self._pods[uid] = queued
        self._filed[uid] = groups = tuple(dict.fromkeys(self._groups_of(queued)))
        for group in groups:
            self._groups.setdefault(group, {})[uid] = queued
            self._by_plugin[group.scheduler, group.plugin] += 1

    def pop(self, uid: str) -> QueuedPod | None:
        """Take a pod out; None when it is not here."""
        self._unfile(uid)
        return self._pods.pop(uid, None)

    def by_plugin(self, scheduler: str, plugin: str) -> bool:
        """Tell whether a pod of a scheduler name is here that a plugin rejected or gates."""
        return (scheduler, plugin) in self._by_plugin

    def of(self, groups: Iterable[Group]) -> list[QueuedPod]:
        """Return the pods of any of the groups, each once."""
        members = [pods for group in dict.fromkeys(groups) if (pods := self._groups.get(group))]
        if len(members) < 2:
            return list(members[0].values()) if members else []
        return list({uid: queued for pods in members for uid, queued in pods.items()}.values())

    def count(self, groups: Iterable[Group]) -> int:
        """Return how many pods the groups have; one that is in several is counted for each."""
        return sum(len(self._groups.get(group, ())) for group in groups)

    def _unfile(self, uid: str) -> None:
        for group in self._filed.pop(uid, ()):
            pods = self._groups[group]
            del pods[uid]
            if not pods:
                del self._groups[group]
            plugin = group.scheduler, group.plugin
            self._by_plugin[plugin] -= 1
            if not self._by_plugin[plugin]:
                del self._by_plugin[plugin]
