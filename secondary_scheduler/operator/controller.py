"""The loop between the caches and the pure reconcile: observe, decide, carry out, report."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from scheduler.kube.client import ApiError, Conflict, KubeClient, KubeError, NotFound, WriteWithheld
from scheduler.kube.model import Unstructured
from secondary_scheduler.operator import logs
from secondary_scheduler.operator.caches import Caches
from secondary_scheduler.operator.metrics import OperatorMetrics
from secondary_scheduler.operator.queue import WorkQueue
from secondary_scheduler.operator.reconcile import (
    FINALIZER,
    KIND,
    Action,
    ApiFailure,
    AppliedRecord,
    Apply,
    Delete,
    Json,
    ObjectKey,
    Observed,
    ReconcilePlan,
    digest,
    fingerprint,
    is_terminating,
    reconcile,
)
from secondary_scheduler.operator.writer import Writer

_WATCH_CHECK_SECONDS = 0.5
"""Seconds between looks at whether a kind has become unreadable or readable again."""
STUCK_AFTER = 120.0
"""Seconds after which a reconcile that has not come back counts as a fault of this process."""

log = structlog.stdlib.get_logger(__name__)


@dataclass
class _ResourceMemory:
    """State of an instance between reconciles; losing it costs one apply per object."""

    applied: dict[ObjectKey, AppliedRecord] = field(default_factory=dict)
    failures: dict[ObjectKey, ApiFailure] = field(default_factory=dict)


class Controller:
    """Reconciles the SecondarySchedulers of some namespaces, one at a time."""

    def __init__(
        self,
        client: KubeClient,
        *,
        namespaces: Collection[str],
        secrets: Collection[str] = (),
        version: str,
        metrics: OperatorMetrics,
        leads: Callable[[], bool] = lambda: True,
        holds: Callable[[str], bool] = lambda namespace: True,
        openshift: bool = False,
        kubernetes_minor: int | None = None,
    ) -> None:
        """Args:
        client: reads and writes everything; its rights may be fewer than wanted.
        namespaces: whose instances are reconciled.
        secrets: names of the Secrets that are watched in each of them; nothing is known of others.
        version: the operator's own, shown in the status.
        metrics: what `/metrics` exposes.
        leads: whether this operator holds its own Lease at this moment, without which it writes nothing.
        holds: whether this operator, and no other, may write for the instances of a namespace at this moment.
        openshift: whether the cluster assigns numeric users itself and issues serving certificates.
        kubernetes_minor: the API server's, of Kubernetes 1.x; None where it is not known.
        """
        self._namespaces = tuple(namespaces)
        self._secrets = tuple(secrets)
        self._version = version
        self._openshift = openshift
        self._kubernetes_minor = kubernetes_minor
        self._metrics = metrics
        self._leads = leads
        self._holds = holds
        # One worker: instances share cluster-scoped names and decide about each other's scheduler names, and a cluster
        # has few of them. A second worker would need locks and save nothing.
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._memory: dict[ObjectKey, _ResourceMemory] = {}
        self.caches = Caches(client, namespaces, self._changed, secrets=secrets)
        self._writer = Writer(client, metrics, self.caches.record_answer)
        self._busy_since: float | None = None

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.caches.run(), name="caches")
            unreadable = await self._wait_for_caches()
            for key in self.caches.instances():
                self._queue.add(key)
            group.create_task(self._follow_watch_failures(unreadable), name="watch the watches")
            group.create_task(self._work(), name="worker")

    def set_kubernetes_minor(self, kubernetes_minor: int | None) -> None:
        """Record the API server's version; the cluster may be upgraded while this process runs."""
        if kubernetes_minor not in (None, self._kubernetes_minor):
            self._kubernetes_minor = kubernetes_minor
            for key in self.caches.instances():
                self._queue.add(key)

    def enqueue_namespace(self, namespace: str) -> None:
        """Reconcile the instances of a namespace."""
        for key in self.caches.instances():
            if key.namespace == namespace:
                self._queue.add(key)

    def _serves(self, namespace: str) -> bool:
        # In a namespace that is being deleted no Lease can be created any more; its finalizers must not wait for one.
        return self._leads() and (self._holds(namespace) or self.caches.terminating(namespace))

    def liveness_problem(self) -> str | None:
        """What is wrong with the loop itself, for the liveness probe."""
        if self._busy_since is not None and time.monotonic() - self._busy_since > STUCK_AFTER:
            return f"a reconcile has been running for more than {STUCK_AFTER:.0f} s"
        return None

    def readiness_problem(self) -> str | None:
        """What keeps the loop from working, for the readiness probe."""
        return None if self.caches.started() else "the caches are not synced yet"

    def has_finalizing_instances(self) -> bool:
        """Whether an instance that is being deleted still waits for this process."""
        return any(self._is_finalizing(key) for key in self.caches.instances())

    def _is_finalizing(self, key: ObjectKey) -> bool:
        resource = self.caches.get(key)
        if resource is None or FINALIZER not in (resource["metadata"].get("finalizers") or ()):
            return False
        terminating = is_terminating(resource) or self.caches.terminating(key.namespace)
        return terminating and self._serves(key.namespace)

    async def _wait_for_caches(self) -> Mapping[tuple[str, str], ApiFailure]:
        while not self.caches.started():  # noqa: ASYNC110 -- a refused list sets no event
            await asyncio.sleep(0.01)
        unreadable = self._unreadable()
        log.info("caches are synced", instances=len(self.caches.instances()), unreadable=sorted(unreadable))
        return unreadable

    def _unreadable(self) -> dict[tuple[str, str], ApiFailure]:
        return {
            (namespace, kind): failure
            for namespace in self._namespaces
            for kind, failure in self.caches.unreadable(namespace).items()
        }

    async def _follow_watch_failures(self, unreadable: Mapping[tuple[str, str], ApiFailure]) -> None:
        while True:
            await asyncio.sleep(_WATCH_CHECK_SECONDS)
            now = self._unreadable()
            if now == unreadable:
                continue
            for namespace, kind in sorted(set(now) - set(unreadable)):
                failure = now[namespace, kind]
                self._metrics.watch_failures.labels(kind).inc()
                log.warning(
                    "kind cannot be read", kind=kind, namespace=namespace, status=failure.status, error=failure.message
                )
            for namespace, kind in sorted(set(unreadable) - set(now)):
                log.info("kind can be read again", kind=kind, namespace=namespace)
            unreadable = now
            for key in self.caches.instances():
                self._queue.add(key)

    def _changed(self, kind: str, before: Unstructured | None, after: Unstructured | None) -> None:
        changed = after or before
        assert changed is not None
        namespace = changed.metadata.namespace
        if kind == KIND:
            self._queue.add(ObjectKey(KIND, namespace, changed.metadata.name))
            if before is None or after is None or _names_changed(before, after):
                # A scheduler name that is given up, or taken, concerns the others.
                for key in self.caches.instances():
                    self._queue.add(key)
            return
        # Nodes send a heartbeat every few seconds.
        if kind == "Node" and before and after and before.content == after.content:
            return
        # A Lease is renewed every two seconds; what it reports, and who holds it, changes rarely.
        if kind == "Lease" and before and after and _reports(before) == _reports(after):
            return
        for key in self.caches.instances():
            if namespace in ("", key.namespace):
                self._queue.add(key)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._metrics.queue_depth.set(len(self._queue))
            self._busy_since = started = time.monotonic()
            outcome = "error"
            try:
                outcome = await self.reconcile(key)
            except Exception:
                # A defect of ours: logged with its traceback and retried with growing delays. Other instances go on.
                delay = self._queue.retry(key)
                log.exception("reconcile failed", instance=str(key), retry_in_seconds=delay)
            finally:
                self._busy_since = None
                self._metrics.reconciles.labels(outcome).inc()
                self._metrics.reconcile_seconds.observe(time.monotonic() - started)

    async def reconcile(self, key: ObjectKey) -> str:
        """Reconcile an instance once and requeue it if needed; returns the outcome as the metrics' label."""
        if not self._serves(key.namespace):
            return "standby"
        memory = self._memory.setdefault(key, _ResourceMemory())
        plan = await self._decide(key, memory)
        if plan is None:
            self._forget(key)
            return "gone"
        log.debug(
            "reconcile",
            instance=str(key),
            writes=[f"{type(action).__name__} {action.key}" for action in plan.actions],
            requeue_after_seconds=plan.requeue_after,
        )
        failures, conflict = await self._execute(key.namespace, plan.actions, memory)
        if conflict and not self._serves(key.namespace):
            return "standby"
        again = False
        self._log_failures(key, memory.failures, failures)
        if plan.actions or memory.failures != failures:
            memory.failures = failures
            plan = await self._decide(key, memory)
            if plan is None:
                self._forget(key)
                return "gone"
            # What became necessary only now, such as the next step of a removal, is left to the next reconcile.
            again = bool(plan.actions)
        reported = await self._report(key, plan)
        if failures or conflict or not reported:
            self._queue.retry(key)
            return "refused" if failures or not reported else "conflict"
        self._queue.forget(key)
        if again:
            self._queue.add(key)
        elif plan.requeue_after is not None:
            self._queue.add(key, plan.requeue_after)
        return "ok"

    async def _decide(self, key: ObjectKey, memory: _ResourceMemory) -> ReconcilePlan | None:
        resource = self.caches.get(key)
        if resource is None:
            return None
        others = tuple(
            other
            for other_key in self.caches.instances()
            if other_key != key and (other := self.caches.get(other_key)) is not None
        )
        logs.follow(
            (instance.get("spec") or {}).get("operatorLogLevel") or "Normal" for instance in (resource, *others)
        )
        observed = Observed(
            resource=resource,
            now=datetime.now(UTC),
            version=self._version,
            openshift=self._openshift,
            kubernetes_minor=self._kubernetes_minor,
            objects=self.caches.objects(),
            applied=dict(memory.applied),
            failures=dict(memory.failures),
            unreadable=self.caches.unreadable(key.namespace),
            unserved=self.caches.unserved(),
            secrets=frozenset(self._secrets),
            others=others,
        )
        # Parsing a user's configuration may take long; health and watches go on meanwhile.
        return await asyncio.to_thread(reconcile, observed)

    async def _execute(
        self, namespace: str, actions: Sequence[Action], memory: _ResourceMemory
    ) -> tuple[dict[ObjectKey, ApiFailure], bool]:
        """Execute the actions in order; return the failures by object, and whether a write met a conflict."""
        failures: dict[ObjectKey, ApiFailure] = {}
        conflict = False
        for action in actions:
            if isinstance(action, Apply) and any(key in failures for key in action.requires):
                continue
            if not self._serves(namespace):
                return failures, True
            try:
                answer = await self._writer.execute(action, lambda: self._serves(namespace))
            except WriteWithheld:
                return failures, True
            except Conflict:
                conflict = True
            except ApiError as error:
                if not (isinstance(error, NotFound) and action.key.kind == KIND):
                    failures[action.key] = ApiFailure(error.status, error.message)
            except KubeError as error:
                failures[action.key] = ApiFailure(0, str(error))
            else:
                log.debug("written", action=type(action).__name__, object=str(action.key))
                self._remember(action, answer, memory)
        return failures, conflict

    def _remember(self, action: Action, answer: Json | None, memory: _ResourceMemory) -> None:
        if isinstance(action, Apply) and answer is not None:
            memory.applied[action.key] = AppliedRecord(digest(action.body), fingerprint(answer))
            log.info("applied", object=str(action.key))
        elif isinstance(action, Delete):
            memory.applied.pop(action.key, None)
            log.info("deleted", object=str(action.key), why=action.why)

    async def _report(self, key: ObjectKey, plan: ReconcilePlan) -> bool:
        """Write the status and send its Events; returns false if the status could not be written."""
        resource = self.caches.get(key)
        if resource is None or plan.status is None:
            if resource is not None:
                self._metrics.show_conditions(resource, resource.get("status") or {})
            return True
        try:
            await self._writer.write_status(resource, plan.status, lambda: self._serves(key.namespace))
        except (NotFound, Conflict, WriteWithheld):
            return True
        except KubeError as error:
            log.warning("status cannot be written", instance=str(key), error=str(error))
            return False
        self._metrics.show_conditions(resource, plan.status)
        for draft in plan.events:
            log.log(30 if draft.warning else 20, draft.message, instance=str(key), reason=draft.reason)
            with contextlib.suppress(KubeError):
                await self._writer.send_event(resource, draft, datetime.now(UTC), lambda: self._serves(key.namespace))
        return True

    def _forget(self, key: ObjectKey) -> None:
        self._memory.pop(key, None)
        self._queue.forget(key)
        self._metrics.forget_instance(key.namespace, key.name)
        log.info("instance is deleted", instance=str(key))

    def _log_failures(
        self, key: ObjectKey, before: Mapping[ObjectKey, ApiFailure], now: Mapping[ObjectKey, ApiFailure]
    ) -> None:
        for target, failure in now.items():
            if before.get(target) != failure:
                log.warning(
                    "write refused", instance=str(key), object=str(target), status=failure.status, error=failure.message
                )


def _reports(lease: Unstructured) -> object:
    return lease.metadata.annotations, (lease.content.get("spec") or {}).get("holderIdentity")


def _names_changed(before: Unstructured, after: Unstructured) -> bool:
    def relevant(instance: Unstructured) -> object:
        content = instance.content
        deleted = content["metadata"].get("deletionTimestamp")
        return content.get("spec"), (content.get("status") or {}).get("schedulerNames"), deleted

    return relevant(before) != relevant(after)
