"""A fresh look at a node right before a pod is bound to it, for clusters where another scheduler uses the same nodes.

The cache shows what others have bound once the watch does: some milliseconds later, or seconds where the API server is
busy. A node that is nearly full may have been filled meanwhile. So for nodes above a threshold
(`SecondarySchedulerOptions.recheckNodesAbovePercent`) the pods on the node are read from the API server, with a quorum,
and the resources are compared again. What is left is the time from the API server's answer to its taking the Binding.

This costs one more request per Binding to such a node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

import structlog
from msgspec import Struct

from scheduler.catalog import ExtensionPoint, NodeResourcesFitArgs
from scheduler.config import Configuration
from scheduler.framework import SUCCESS, NodeInfo, PodInfo, Status, failure
from scheduler.helpers import ExtendedResources, may_be_devices, reduce_pod
from scheduler.kube.client import KubeClient, KubeError
from scheduler.kube.model import PODS, DecodeError
from scheduler.observe import Metrics
from scheduler.state import ClusterState

MAX_ANSWER_BYTES: Final = 16 << 20
"""Limit of the answer to a read, for the client that the check gets: 110 pods are half a megabyte, usually."""
READS_AT_ONCE: Final = 4
"""An answer ages while others are awaited beside it: with 64 at once it was a second old when it came."""
_FIT: Final = "NodeResourcesFit"
_LIVE: Final = "status.phase!=Succeeded,status.phase!=Failed"
_TIMEOUT_SECONDS: Final = 10.0
log = structlog.get_logger(component="nodecheck")


class CheckRule(Struct, frozen=True):
    """When nodes are checked for pods of a profile, and what for.

    Attributes:
        percent: from how full on, of what is allocatable of any resource that the pod requests.
        fit: the args of the profile's NodeResourcesFit, which may ignore extended resources.
    """

    percent: int
    fit: NodeResourcesFitArgs

    def ignores(self, resource: str) -> bool:
        """Tell whether the profile ignores a resource."""
        domain, slash, _ = resource.partition("/")
        if not slash or "kubernetes.io/" in resource:
            return False
        return resource in self.fit.ignored_resources or domain in self.fit.ignored_resource_groups


def check_rules(configuration: Configuration) -> dict[str, CheckRule]:
    """Return the rules of the profiles that ask for checks; a profile that does not compare resources has none."""
    rules = {}
    for profile in configuration.profiles:
        percent, fit = profile.options.recheck_nodes_above_percent, profile.args(_FIT)
        filters = {plugin.name for plugin in profile.plugins(ExtensionPoint.FILTER)}
        if percent is not None and _FIT in filters and isinstance(fit, NodeResourcesFitArgs):
            rules[profile.scheduler_name] = CheckRule(percent, fit)
    return rules


class NodeCheck:
    """Compares nodes with the API server. Methods run on the event loop's thread.

    Args:
        state: the cache.
        client: for the reads; limits their rate and size.
        metrics: where checks are counted and timed.
        rules: by scheduler name; pods of other profiles are not checked.
    """

    def __init__(
        self, state: ClusterState, client: KubeClient, metrics: Metrics, rules: Mapping[str, CheckRule]
    ) -> None:
        self._state = state
        self._client = client
        self._metrics = metrics
        self._rules = rules
        self._turns = asyncio.Semaphore(READS_AT_ONCE)

    def applies(self, pod: PodInfo, node: str) -> bool:
        """Tell whether a node is so full, with the pod on it as it is assumed, that it is to be checked."""
        rule = self._rules.get(pod.scheduler_name)
        table = self._state.table
        row = table.row_of.get(node)
        if rule is None or row is None:
            return False
        requested = [name for name, amount in pod.spec.requests.items() if amount > 0 and name in table.amounts]
        columns = [table.pods, *(table.amounts[name] for name in requested)]
        return any(100 * amounts.sums[row] >= rule.percent * amounts.allocatable[row] for amounts in columns)

    async def check(self, pod: PodInfo, node: str) -> Status:
        """Return Success where the node has room for an assumed pod, an error where it has none or cannot be read.

        An error, not a rejection: no event would wake the pod, and after its backoff the cache shows what was missing.
        """
        info = self._state.node(node)
        if info is None:
            return failure(f"node {node} is gone")
        confirmed = {other.uid: other for other in self._state.pods_on(node) if not self._state.is_assumed(other.uid)}
        if lacking := self._lacking(pod, info, confirmed):
            # No need to ask: the watch has shown it meanwhile.
            return self._full(pod, node, lacking)
        began = time.perf_counter()
        try:
            async with self._turns:
                fresh = await self._read(info)
        except (KubeError, DecodeError) as error:
            self._metrics.node_checks.labels("failed").inc()
            return failure(f"node {node} could not be checked before binding, try again: {str(error)[:300]}")
        finally:
            self._metrics.node_check_duration.observe(time.perf_counter() - began)
        if lacking := self._lacking(pod, info, fresh):
            return self._full(pod, node, lacking)
        self._metrics.node_checks.labels("fits").inc()
        return SUCCESS

    def _full(self, pod: PodInfo, node: str, lacking: str) -> Status:
        self._metrics.node_checks.labels("full").inc()
        log.info("a node has filled up since the pod was assumed", pod=pod.key, node=node, reason=lacking)
        return failure(f"node {node} has filled up since it was chosen: {lacking}")

    def _is_devices(self, resource: str) -> bool:
        """Tell whether a resource that a node does not have may be devices, which DynamicResources accounts for."""
        return may_be_devices(resource) and (
            self._state.objects.derived(ExtendedResources).class_of(resource) is not None
        )

    async def _read(self, node: NodeInfo) -> dict[str, PodInfo | None]:
        """Read the pods on a node, at most as many as it may have, by UID; None for one that cannot be read.

        Without a resource version the API server asks etcd how new its answer has to be.
        """
        params: dict[str, str | int] = {
            "fieldSelector": f"spec.nodeName={node.name},{_LIVE}",
            "limit": max(node.allowed_pods, 1),
        }
        page = PODS.decode_list(await self._client.get("/api/v1/pods", params, timeout=_TIMEOUT_SECONDS))
        pods: dict[str, PodInfo | None] = {invalid.metadata.uid: None for invalid in page.invalid}
        for item in page.items:
            try:
                pods[item.metadata.uid] = reduce_pod(item)
            except ValueError:
                pods[item.metadata.uid] = None
        return pods

    def _lacking(self, pod: PodInfo, node: NodeInfo, fresh: Mapping[str, PodInfo | None]) -> str:
        """Return which resources the node lacks; "" where it has room.

        Of the pods that are assumed and not bound, those count that were assumed before this one: of several that have
        no room together the first keeps its place.
        """
        others = [other for other in fresh.values() if other is not None and other.uid != pod.uid]
        for other in self._state.pods_on(node.name):
            if other.uid == pod.uid:
                break
            if other.uid not in fresh and self._state.is_assumed(other.uid):
                others.append(other)
        rule = self._rules[pod.scheduler_name]
        lacking = []
        if len(others) + 1 > node.allowed_pods:
            lacking.append("Too many pods")
        for name, request in pod.spec.requests.items():
            if request > 0 and not rule.ignores(name) and (node.allocatable.get(name, 0) or not self._is_devices(name)):
                used = sum(other.requests.get(name, 0) for other in others)
                if request > node.allocatable.get(name, 0) - used:
                    lacking.append(f"Insufficient {name}")
        return ", ".join(lacking[:8])
