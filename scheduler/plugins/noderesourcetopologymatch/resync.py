"""Comparing what agents publish with the pods on their nodes, every so often and beside the scheduling loop."""

from collections import Counter

from scheduler.framework import GiveWay, Handle, Objects, PodInfo
from scheduler.plugins.noderesourcetopologymatch.caches import MISMATCH, OverReserve
from scheduler.plugins.noderesourcetopologymatch.topology import KIND, NAME

MAX_REQUESTS = 10
"""Nodes whose ended pods are asked for in one round: each costs the API server a list."""
_MAX_WAITING = 10_000


class Resync:
    """Looks at suspicious nodes every so often, and wakes the pods that they rejected once their numbers are reliable.

    Upstream wakes no pod: it waits for the next change of any object, or for five minutes.
    """

    def __init__(self, cache: OverReserve, handle: Handle, period: float, *, wakes: bool) -> None:
        self._cache = cache
        self._handle = handle
        self._period = period
        self._wakes = wakes
        self._waiting: dict[str, PodInfo] = {}
        self._logged: dict[str, int] = {}
        self._round = 0

    def pod_rejected(self, pod: PodInfo) -> None:
        """Remember a pod that some node had no zone for, or could not be counted on for."""
        if self._wakes and len(self._waiting) < _MAX_WAITING:
            self._waiting[pod.uid] = pod

    def placed(self, pod: PodInfo) -> None:
        """Forget a pod that has found its node."""
        self._waiting.pop(pod.uid, None)

    def start(self, objects: Objects) -> None:
        """Look now, as upstream does, and every period from then on."""

        async def compare_all(give_way: GiveWay) -> None:
            self._cache.preload(objects)
            await self.once(objects, give_way)

        self._handle.run_every(self._period, compare_all, f"{NAME} resync")

    async def once(self, objects: Objects, give_way: GiveWay) -> int:
        """Look at every suspicious node; returns how many can be counted on again."""
        suspects, changed = self._cache.desynced(objects)
        # Rotates, so that every suspect has its turn though few requests are made per round.
        start = self._round * MAX_REQUESTS % max(1, len(suspects))
        self._round += 1
        reasons: Counter[str] = Counter()
        fresh = 0
        requests = 0
        for node in (*suspects[start:], *suspects[:start]):
            problem = self._cache.compare(node, objects, self._handle.pods_on)
            if problem == MISMATCH and self._cache.counts_ended and requests < MAX_REQUESTS:
                requests += 1
                ended = await self._handle.ended_pods(node)
                problem = self._cache.compare(node, objects, self._handle.pods_on, ended) if ended else problem
            if problem:
                reasons[problem] += 1
            else:
                fresh += 1
            await give_way()
        for node in changed:
            item = objects.get(KIND, "", node)
            if item is not None:
                self._cache.update_topology_manager(item)
                fresh += 1
        self._cache.forget_nodes(lambda name: self._handle.node(name) is not None)
        self._log_changes(dict(reasons), fresh)
        if fresh and self._waiting:
            waiting, self._waiting = self._waiting, {}
            self._handle.activate(waiting.values())
        return fresh

    def _log_changes(self, reasons: dict[str, int], fresh: int) -> None:
        """One line when it changes what nodes wait for."""
        if reasons != self._logged:
            self._logged = reasons
            if reasons:
                message = "nodes wait for resource topologies that include their pods"
                self._handle.log("info", NAME, message, fresh=fresh, waiting=reasons)
            else:
                self._handle.log("info", NAME, "all resource topologies include their nodes' pods", fresh=fresh)
