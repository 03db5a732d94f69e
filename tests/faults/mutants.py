"""Faults planted into a running copy of our scheduler, to prove the oracle: each breaks one promise.

`tests.faults.debugged` plants one before the daemon is made. They reach into the scheduler on purpose; one that no
longer finds what it replaces lets the scheduler keep its promises, and so fails its test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


def _nothing() -> None:
    """The fault is in the profile."""


@dataclass(frozen=True)
class Mutant:
    """A planted fault."""

    invariant: str
    """Which the oracle must find broken."""
    scenario: str
    """In which scenario."""
    plant: Callable[[], None] = _nothing
    profile: dict[str, Any] = field(default_factory=dict)
    """Takes the place of the scenario's, where it is not empty."""


def _without(plugin: str) -> dict[str, Any]:
    return {"plugins": {"multiPoint": {"disabled": [{"name": plugin}]}}}


def _bind_without_uid() -> None:
    from scheduler.kube.client import KubeClient

    post = KubeClient.post

    async def without_uid(self: Any, path: str, body: Any, *rest: Any, **options: Any) -> bytes:
        if path.endswith("/binding"):
            body = {**body, "metadata": {key: value for key, value in body["metadata"].items() if key != "uid"}}
        return await post(self, path, body, *rest, **options)

    KubeClient.post = without_uid  # type: ignore[method-assign]


def _forget_at_once() -> None:
    """A Binding whose outcome is unknown counts as not taken, and every pod seen bound as not there."""
    from scheduler.engine.binding import Binder
    from scheduler.framework import Code, Status
    from scheduler.state import ClusterState

    async def forget(self: Any, *arguments: Any, **options: Any) -> Status:
        return Status(Code.ERROR, error="taken for granted")

    Binder._resolve = forget  # type: ignore[method-assign]
    ClusterState.upsert_pod = lambda self, pod, observed_at=0.0: None  # type: ignore[method-assign]


def _lose_pods() -> None:
    """Every second pod that is taken from the queue is lost."""
    from scheduler.state import SchedulingQueue

    pop = SchedulingQueue.pop
    count = [0]

    def sometimes(self: Any) -> Any:
        popped = pop(self)
        if popped is not None:
            count[0] += 1
            if count[0] % 2:
                return pop(self)
        return popped

    SchedulingQueue.pop = sometimes  # type: ignore[method-assign]


def _write_without_lease() -> None:
    """Whoever once led goes on writing, and nothing ends the process."""
    from scheduler import daemon
    from scheduler.kube import lease

    daemon.Daemon._may_write = lambda self: True  # type: ignore[method-assign]
    lease.LeaseElector.is_leader = lambda self: True  # type: ignore[method-assign]
    lease.os._exit = lambda code: None  # type: ignore[attr-defined, assignment]


def _keep_what_is_gone() -> None:
    """Pods stay on their nodes in the cache."""
    from scheduler.state import ClusterState

    ClusterState.remove_pod = lambda self, uid: None  # type: ignore[method-assign]


def _keep_what_was_refused() -> None:
    """A pod whose Binding was refused stays assumed."""
    from scheduler.state import ClusterState

    ClusterState.forget = lambda self, uid: True  # type: ignore[method-assign]


def _forget_nominations() -> None:
    from scheduler.state.nominations import Nominator

    Nominator.set = lambda self, pod, node: None  # type: ignore[method-assign]
    Nominator.update = lambda self, pod, old=None: None  # type: ignore[method-assign]


def _believe_what_was_undone() -> None:
    from scheduler.kube.client import EtcdRestores

    EtcdRestores.notice = lambda self, restore: None  # type: ignore[method-assign]


def _log_at_length() -> None:
    _log_requests(lambda client: {"text": "x" * 300_000})


def _log_the_token() -> None:
    _log_requests(lambda client: {"token": client.config.token})


def _say_nothing() -> None:
    """Warnings and errors are not logged."""
    import structlog

    def drop(_logger: Any, method: str, event: Any) -> Any:
        if method in ("warning", "error", "exception"):
            raise structlog.DropEvent
        return event

    configure = structlog.configure

    def configured(**options: Any) -> None:
        configure(**{**options, "processors": [drop, *options.get("processors", ())]})

    structlog.configure = configured


def _log_requests(fields: Callable[[Any], dict[str, Any]]) -> None:
    import structlog

    from scheduler.kube.client import KubeClient

    request = KubeClient.request

    async def telling(self: Any, method: str, path: str, **options: Any) -> bytes:
        structlog.get_logger(component="mutant").info("request", **fields(self))
        return await request(self, method, path, **options)

    KubeClient.request = telling  # type: ignore[method-assign]


def _ignore_racks() -> None:
    from scheduler.plugins.coscheduling.topologies import Topologies

    Topologies.of = lambda self, group: (None, "")  # type: ignore[method-assign]


MUTANTS: dict[str, Mutant] = {
    "binds-without-uid": Mutant("I1", "bind-applied-answer-lost", _bind_without_uid),
    "forgets-early": Mutant("I2", "bind-applied-answer-lost", _forget_at_once),
    "ignores-room": Mutant("I2", "allocatable-below-used", profile=_without("NodeResourcesFit")),
    "ignores-selectors": Mutant("I3", "pod-changed-while-it-waits", profile=_without("NodeAffinity")),
    "loses-pods": Mutant("I4", "bind-applied-answer-lost", _lose_pods),
    "ignores-gangs": Mutant("I5", "gang-that-never-fits", profile=_without("Coscheduling")),
    "ignores-the-lease": Mutant("I6", "zombie-leader", _write_without_lease),
    "keeps-what-is-gone": Mutant("I7", "watch-expires", _keep_what_is_gone),
    "keeps-what-was-refused": Mutant("I7", "webhook-refuses-bindings", _keep_what_was_refused),
    "never-hears-of-minimums": Mutant("I5", "minimum-flaps", profile=_without("Coscheduling")),
    "ignores-racks": Mutant("I3", "gang-in-a-rack", _ignore_racks),
    "forgets-nominations": Mutant("played", "nominated-pods", _forget_nominations),
    "believes-what-was-undone": Mutant("I7", "etcd-put-back", _believe_what_was_undone),
    "logs-at-length": Mutant("I8", "bind-applied-answer-lost", _log_at_length),
    "says-nothing": Mutant("I9", "rights-removed", _say_nothing),
    "logs-the-token": Mutant("I10", "bind-applied-answer-lost", _log_the_token),
}
"""By name; `python -m tests.faults --scenario NAME --kind MUTANT` plays one."""
