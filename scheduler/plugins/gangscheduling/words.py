"""What kube-scheduler says of PodGroups, version by version."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from scheduler import framework as fw
from scheduler.catalog import KubernetesVersion
from scheduler.kube.model import SchedulingPodGroup

NAME = "GangScheduling"
_UNSCHEDULABLE = "pod group is unschedulable"
_NO_DOMAIN = "no feasible placements found"
_ERROR = "SchedulerError"


def words_of(version: KubernetesVersion) -> Words:
    """Return the words of a version; those of 1.36 where it has no PodGroups, as nobody hears them."""
    if version.names_thresholds:
        return _Words138(version)
    return _Words137(version) if version.gives_up_early else Words(version)


class Words:
    """Those of 1.36.

    Attributes:
        condition: type of the condition that says whether a group is scheduled.
        gated: said of a pod whose group waits for another one's gates.
    """

    gated = "waiting for the scheduling gates of the pods of its pod group"

    def __init__(self, version: KubernetesVersion) -> None:
        self.condition = version.pod_group_condition

    def missing(self, group: str) -> str:
        """Say that a group does not exist; the grammar is upstream's."""
        return f'waiting for pods\'s pod group "{group}" to appear in scheduling queue'

    def too_few(self, group: SchedulingPodGroup) -> str:
        """Say that a group lacks pods."""
        return "waiting for minCount pods from a gang to appear in scheduling queue"

    def held_back(self, minimum: int, has_topology: bool) -> fw.HeldBack:
        """Return what is said of a group that does not fit, from how many fit."""
        return lambda fit, failed, untried, domains: (
            f"{_UNSCHEDULABLE}, waiting for minCount pods from a gang to be scheduled, one or more plugins asked to "
            "wait and no plugin rejected pod"
        )

    def of_members(self, group: SchedulingPodGroup) -> Callable[[bool], str] | None:
        """Return what is said to members that did not fail themselves, by whether there was an error; None where it is
        what is said of the group."""
        return None

    def of_group(self, message: str) -> str:
        """Return what the group's condition says where a message says why it does not fit."""
        return _UNSCHEDULABLE

    def unlike(self, group: SchedulingPodGroup, pods: Sequence[fw.PodInfo]) -> Iterator[str]:
        """Yield what keeps kube-scheduler from placing a group at all: how its pods differ."""
        return iter(())

    def reason_of(self, error: fw.Status) -> str:
        """Return the condition's reason for an error; one of this plugin is about the group itself."""
        return _ERROR


class _Words137(Words):
    """Those of 1.37 (PlacementFeasible, validatePodGroup)."""

    def held_back(self, minimum: int, has_topology: bool) -> fw.HeldBack:
        def say(fit: int, failed: int, untried: int, domains: int) -> str:
            if fit >= minimum:
                # The group runs, and none of the pods that were left fits.
                return self._none_fits
            if has_topology and not domains:
                return self._prefixed(_NO_DOMAIN, has_topology=False)
            return self._prefixed(self._progress(minimum, fit, failed, untried), has_topology, domains)

        return say

    _none_fits = _UNSCHEDULABLE

    def _prefixed(self, text: str, has_topology: bool, domains: int = 0) -> str:
        if text == _NO_DOMAIN:
            return text
        if has_topology:
            placements = f"0/{domains} placements are available, first placement status"
            return f"{_UNSCHEDULABLE}, {_UNSCHEDULABLE}, {placements}: {text}"
        return f"{_UNSCHEDULABLE}, {text}"

    def _progress(self, minimum: int, fit: int, failed: int, untried: int) -> str:
        reached = "cannot be satisfied" if fit + untried < minimum else "is not yet satisfied"
        return f"minCount ({minimum}) {reached}: {fit} scheduled, {untried} remaining"

    def of_group(self, message: str) -> str:
        return message.removeprefix(f"{_UNSCHEDULABLE}, ")

    def unlike(self, group: SchedulingPodGroup, pods: Sequence[fw.PodInfo]) -> Iterator[str]:
        first, whole = pods[0], "all pods in a single pod group should have the same"
        priority, own = group.spec.priority or 0, group.spec.preemption_policy
        expected = own or first.spec.preemption_policy
        of_group = " as the pod group's preemption policy" if own else ""
        for pod in pods:
            if pod.scheduler_name != first.scheduler_name:
                names = f'"{pod.scheduler_name}" and "{first.scheduler_name}"'
                yield f"{whole} .spec.schedulerName set, got: {names}"
            if pod.priority != priority:
                yield f"{whole} priority as the pod group's priority, got {pod.priority} and {priority}"
            if (policy := pod.spec.preemption_policy) != expected:
                yield f"{whole} preemption policy{of_group}, got {policy} and {expected}"


class _Words138(_Words137):
    """Those of 1.38 (PlacementFeasible, validatePodGroupHierarchy, podGroupFitError)."""

    _none_fits = "no pods were schedulable"

    def missing(self, group: str) -> str:
        return f'pod group "{group}" or one of its composite pod group ancestors has not been created yet'

    def too_few(self, group: SchedulingPodGroup) -> str:
        return f"waiting for {_key(group)} to meet its quorum"

    def _prefixed(self, text: str, has_topology: bool, domains: int = 0) -> str:
        if not has_topology:
            return text
        return f"0/{domains} placements are available, first placement status: {text}"

    def _progress(self, minimum: int, fit: int, failed: int, untried: int) -> str:
        reached = "cannot be satisfied" if fit + untried < minimum else "is not yet satisfied"
        counts = f"{fit} scheduled, {failed} unschedulable, {untried} not-evaluated"
        return f"scheduling policy's minimum threshold ({minimum}) {reached}: {counts}"

    def of_members(self, group: SchedulingPodGroup) -> Callable[[bool], str] | None:
        name = group.metadata.name
        return lambda failed: f'parent pod group "{name}" {"encountered an error" if failed else "is unschedulable"}'

    def unlike(self, group: SchedulingPodGroup, pods: Sequence[fw.PodInfo]) -> Iterator[str]:
        first, whole = pods[0], "all pods in a pod group hierarchy should have the same"
        priority, root = group.spec.priority or 0, f'"{_key(group)}"'
        expected = group.spec.preemption_policy or first.spec.preemption_policy
        for pod in pods:
            if pod.scheduler_name != first.scheduler_name:
                mine, its = f'"{pod.scheduler_name}" ("{pod.name}")', f'"{first.scheduler_name}" ("{first.name}")'
                yield f"{whole} .spec.schedulerName set, got: {mine} and {its}"
            if pod.priority != priority:
                mine, its = f'{pod.priority} ("{pod.name}")', f"{priority} ({root})"
                yield f"{whole} priority as the root pod group's priority, got {mine} and {its}"
            if (policy := pod.spec.preemption_policy) != expected:
                yield f'{whole} preemption policy, got {policy} ("{pod.name}") and {expected}'

    def reason_of(self, error: fw.Status) -> str:
        return "PodGroupError" if error.plugin == NAME else _ERROR


def _key(group: SchedulingPodGroup) -> str:
    """Return what 1.38 calls a group."""
    return f"podgroup/{group.metadata.namespace}/{group.metadata.name}"
