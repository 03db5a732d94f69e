"""DynamicResources: devices for the ResourceClaims of pods (pkg/scheduler/framework/plugins/dynamicresources).

Filter tells on which nodes the claims that have no devices yet can get them, and that those which have are usable.
Reserve chooses the devices on the chosen node, and PreBind writes them into the claims. What is reserved and not yet
written is in the ledger, which all profiles share.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime

import msgspec

from scheduler import framework as fw
from scheduler.catalog import ActionType, DynamicResourcesArgs, KubernetesVersion
from scheduler.helpers import asks_for_devices, default_normalize
from scheduler.kube.model import ClaimAllocation, DeviceTaintRule, ResourceClaim
from scheduler.kube.primitives import format_time
from scheduler.plugins.dynamicresources.attempt import Attempt, Rejected, begin
from scheduler.plugins.dynamicresources.binding import (
    DEFAULT_TIMEOUT,
    FINALIZER,
    ClaimBindingFailed,
    bind_claim,
    deallocate,
    give_up_reservation,
    show,
    show_once_known,
    wait_until_ready,
)
from scheduler.plugins.dynamicresources.devices import DeviceID
from scheduler.plugins.dynamicresources.extended import (
    any_is_backed,
    create_claim,
    delete_claim,
    pod_patch,
    possible_devices,
    special_owner,
)
from scheduler.plugins.dynamicresources.ledger import Ledger
from scheduler.plugins.dynamicresources.results import (
    CLAIM,
    CLASS,
    RULE,
    SLICE,
    ClaimProblem,
    is_reserved_for,
    nodes_of,
    pod_claims,
)

# Which changes may let a pod with claims run (EventsToRegister of kube-scheduler's DynamicResources).

_ADD_OR_UPDATE = ActionType.ADD | ActionType.UPDATE


class Hints:
    """The hints, which look at the pod's claims in the store."""

    def __init__(self, objects: Callable[[], fw.Objects | None], kubernetes: KubernetesVersion) -> None:
        self._objects = objects
        self._kubernetes = kubernetes

    def registrations(self) -> Sequence[fw.HintRegistration]:
        """Return the events of interest."""
        kubernetes, claim_actions = self._kubernetes, _ADD_OR_UPDATE
        if kubernetes.backs_extended_resources or kubernetes.wakes_at_lost_claims:
            claim_actions |= ActionType.DELETE
        concern = fw.Concern(_awaited, _named, self._helps_all)
        rules = fw.HintRegistration(RULE, _ADD_OR_UPDATE | ActionType.DELETE, self._rule_changed)
        return (
            fw.HintRegistration(
                fw.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
            ),
            fw.HintRegistration(CLAIM, claim_actions, self._claim_changed, concern),
            fw.HintRegistration(fw.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._pod_changed, concern),
            fw.HintRegistration(CLASS, _ADD_OR_UPDATE),
            fw.HintRegistration(SLICE, _ADD_OR_UPDATE),
            *((rules,) if kubernetes.follows_taint_rules else ()),
        )

    @staticmethod
    def _rule_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        is_same = isinstance(old, DeviceTaintRule) and isinstance(new, DeviceTaintRule) and old.spec == new.spec
        return fw.Hint.SKIP if is_same else fw.Hint.QUEUE

    def _helps_all(self, old: object, new: object) -> bool:
        """Tell whether a claim has lost its devices."""
        if not isinstance(old, ResourceClaim) or old.status.allocation is None:
            return False
        if new is None:
            return self._kubernetes.wakes_at_lost_claims
        return isinstance(new, ResourceClaim) and new.status.allocation is None

    def _claim_deleted(self, pod: fw.PodInfo, claim: ResourceClaim) -> fw.Hint:
        if special_owner(claim) == pod.uid:
            # The pod waits for that: the claim was of an attempt that failed.
            return fw.Hint.QUEUE
        lost = self._kubernetes.wakes_at_lost_claims and claim.status.allocation is not None
        return fw.Hint.QUEUE if lost and self._claims_of(pod) is not None else fw.Hint.SKIP

    def _claims_of(self, pod: fw.PodInfo) -> list[ResourceClaim] | None:
        objects = self._objects()
        if objects is None:
            return []
        try:
            return pod_claims(pod, objects)
        except ClaimProblem:
            return None

    def _claim_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if new is None and isinstance(old, ResourceClaim):
            return self._claim_deleted(pod, old)
        if not isinstance(new, ResourceClaim):
            return fw.Hint.QUEUE
        before = old if isinstance(old, ResourceClaim) else None
        claims = self._claims_of(pod)
        if claims is None:
            return fw.Hint.SKIP
        if self._helps_all(old, new):
            # Somebody's devices are free again.
            return fw.Hint.QUEUE
        if all(claim.metadata.uid != new.metadata.uid for claim in claims):
            return fw.Hint.SKIP
        return fw.Hint.SKIP if before is not None and before.status == new.status else fw.Hint.QUEUE

    def _pod_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if not isinstance(new, fw.PodInfo):
            return fw.Hint.QUEUE
        if pod.uid != new.uid:
            return fw.Hint.SKIP
        return fw.Hint.SKIP if self._claims_of(new) is None else fw.Hint.QUEUE


def _awaited(pod: fw.PodInfo) -> Collection[str]:
    """Return the claims that a pod names or has from templates, and the pod itself."""
    generated = [name for entry in pod.claim_names if (name := entry.partition("=")[2])]
    named = [wanted.resource_claim_name for wanted in pod.spec.claims if wanted.resource_claim_name is not None]
    return (_pod(pod.uid), *(_claim(pod.namespace, name) for name in (*named, *generated)))


def _named(old: object, new: object) -> Collection[str]:
    """Return the claim that changed, and the pod whose extended resources it is for; or the pod that changed."""
    changed = old if new is None else new
    if isinstance(changed, fw.PodInfo):
        return (_pod(changed.uid),)
    if not isinstance(changed, ResourceClaim):
        return ()
    owner = special_owner(changed)
    claim = _claim(changed.metadata.namespace, changed.metadata.name)
    return (claim, _pod(owner)) if owner else (claim,)


def _pod(uid: str) -> str:
    return f"pod/{uid}"


def _claim(namespace: str, name: str) -> str:
    return f"claim/{namespace}/{name}"


NO_CLAIMS = "no new claims to deallocate"
_CREATED = "scheduler_resourceclaim_creates_total"
_CREATED_1_37 = "dynamic_resource_allocation_resourceclaim_creates_total"


class _PreFilterRan:
    """Mark of an attempt in which PreFilter got as far as this plugin."""


class DynamicResources(
    fw.PreEnqueuePlugin,
    fw.PreFilterPlugin,
    fw.FilterPlugin,
    fw.PostFilterPlugin,
    fw.ScorePlugin,
    fw.ScoreNormalizer,
    fw.ReservePlugin,
    fw.PreBindPlugin,
    fw.PreBindPreFlight,
    fw.EnqueueExtensions,
    fw.FilterRule,
    fw.ObjectReader,
):
    """Filter over devices; reserves devices and writes the allocations before the pod is bound."""

    name = "DynamicResources"

    def __init__(self, args: DynamicResourcesArgs, context: fw.PluginContext) -> None:
        self._handle = context.handle
        self._kubernetes = context.kubernetes
        says_more = context.kubernetes.reports_claims_in_preemption
        self._nothing_freed = fw.unschedulable(*((NO_CLAIMS,) if says_more else ()))
        self._none_to_free = fw.unschedulable(*(("still not schedulable",) if says_more else ()))
        self._objects: fw.Objects | None = None
        self._decides = False
        self._stamps = context.kubernetes.waits_for_devices
        self._binding_timeout = args.binding_timeout or DEFAULT_TIMEOUT
        self._hints = Hints(lambda: self._objects, context.kubernetes)

    def use_objects(self, objects: fw.Objects) -> None:
        """Take the store; the accounts of devices begin now, so that they miss nothing."""
        self._objects = objects
        ledger = objects.derived(Ledger)
        if self._handle is not None:
            ledger.on_conflict(self._report_conflict)

    def _report_conflict(self, device: DeviceID, uids: Collection[str]) -> None:
        """Another scheduler gives devices of one of our pools away: say so, also to the pods that have the device.

        A pod that is on its way to a node is told when its binding is given up.
        """
        assert self._handle is not None
        assert self._objects is not None
        message = (
            "a device is allocated to two claims: does another scheduler use the pool, too? "
            "(docs/one-scheduler-per-pool.md)"
        )
        name = "/".join(device)
        self._handle.log("warning", self.name, message, device=name)
        if not self._decides:
            # A replica that waits for the Lease sees the same; the one that has it says so.
            return
        for consumer in (
            pod
            for claim in self._objects.every(CLAIM)
            if claim.metadata.uid in uids
            for node in nodes_of(claim)
            for pod in self._handle.pods_on(node)
            if is_reserved_for(pod, claim)
        ):
            note = f"device {name} is allocated to another claim, too: does another scheduler use the pool?"
            self._handle.event(consumer, "Warning", "DeviceAllocatedTwice", "Scheduling", note)

    def pre_enqueue(self, pod: fw.PodInfo) -> fw.Status:
        """Keep a pod out of the queue until all of its claims exist."""
        if not pod.spec.claims or self._objects is None:
            return fw.SUCCESS
        try:
            pod_claims(pod, self._objects)
        except ClaimProblem as problem:
            return fw.unresolvable(str(problem))
        return fw.SUCCESS

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Skip pods without claims; reject those whose claims cannot be allocated as they are."""
        state.write(self.name, _PreFilterRan())
        self._decides = True
        if not pod.spec.claims and not self._may_be_devices(pod):
            return None, fw.SKIP
        try:
            attempt = begin(pod, view, self._binding_timeout, self._kubernetes)
        except (ClaimProblem, Rejected) as problem:
            return None, fw.unresolvable(str(problem))
        except ValueError as error:
            return None, fw.failure(str(error))
        if not attempt.claims and attempt.extended is None:
            return None, fw.SKIP
        allocated = len(attempt.selectors) + len(attempt.spoiled)
        state.work.charge(len(pod.spec.claims) + allocated * len(view.rows), "claims of the pod x nodes")
        state.write(self.name, attempt)
        return None, fw.SUCCESS

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes where a claim's devices cannot be used, or where there are none for it."""
        attempt = state.read(self.name, Attempt)
        if attempt is None:
            return None
        verdicts = attempt.verdicts(view, rows)
        attempt.charge(state.work)
        return verdicts

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Pods without claims and extended resources that are devices pass."""
        if spec.claims:
            return fw.Reads.ANYTHING
        names = spec.of(possible_devices) if self._kubernetes.backs_extended_resources else ()
        if names and nodes.value(lambda view: any_is_backed(names, view.objects)):
            return fw.Reads.ANYTHING
        return fw.Reads.NOTHING

    score_rule = filter_rule

    def _may_be_devices(self, pod: fw.PodInfo) -> bool:
        return self._kubernetes.backs_extended_resources and asks_for_devices(pod.spec.requests)

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray | None:
        """Rate nodes by the alternatives of requests that they give: the earlier the better. From 1.35 on."""
        attempt = state.read(self.name, Attempt)
        return None if attempt is None else attempt.ratings(view, rows)

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Return scores relative to the best node."""
        return default_normalize(scores)

    def post_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, codes: fw.NodeCodes
    ) -> tuple[fw.PostFilterResult | None, fw.Status]:
        """Free a claim whose devices keep the pod off every node, if nobody else uses it."""
        attempt = state.read(self.name, Attempt)
        if attempt is None:
            if state.read(self.name, _PreFilterRan) is None:
                # PreFilter ended before this plugin.
                return None, fw.failure("not found")
            return None, self._nothing_freed
        if attempt.extended is not None and attempt.extended.stale is not None and self._handle is not None:
            stale = attempt.extended.stale
            self._handle.spawn(delete_claim(self._handle, stale, FINALIZER), f"deletion of {stale.metadata.key}")
            return None, fw.unschedulable("deletion of ResourceClaim completed")
        candidates = [claim for claim in attempt.unavailable_claims() if _is_only_user(pod, claim)]
        if not candidates or self._handle is None:
            return None, self._none_to_free
        claim = candidates[int(state.rng.random() * len(candidates))]
        self._handle.spawn(self._deallocate(view.objects, claim), f"deallocation of {claim.metadata.key}")
        return None, fw.unschedulable("deallocation of ResourceClaim completed")

    async def _deallocate(self, objects: fw.Objects, claim: ResourceClaim) -> None:
        assert self._handle is not None
        status = await deallocate(self._handle, objects, claim)
        if not status.is_success:
            self._handle.log(
                "warning", self.name, "a claim was not deallocated", claim=claim.metadata.key, error=status.message
            )

    def reserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> fw.Status:
        """Choose the devices on the node, and take them, so that the next pod does not count on them."""
        attempt = state.read(self.name, Attempt)
        if attempt is None:
            return fw.SUCCESS
        status = attempt.reserve(node)
        if self._handle is None and status.is_success:
            # A simulation: nobody will write it.
            attempt.show_as_written()
        return status

    def unreserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> None:
        """Give the devices back that were not written; take back the reservations that were.

        An allocation that was written stays: the next attempt uses it, or PostFilter clears it.
        """
        attempt = state.read(self.name, Attempt)
        if attempt is None:
            return
        attempt.release()
        objects = attempt.view.objects
        if self._handle is not None and attempt.special is not None and attempt.special.is_created:
            special = attempt.special.claim
            self._handle.spawn(delete_claim(self._handle, special, FINALIZER), f"deletion of {special.metadata.key}")
        for claim in attempt.claims:
            meta = claim.metadata
            latest = objects.latest(CLAIM, meta.namespace, meta.name)
            if (
                self._handle is not None
                and latest is not None
                and latest.metadata.uid == meta.uid
                and latest.status.allocation is not None
                and is_reserved_for(pod, latest)
            ):
                work = give_up_reservation(self._handle, objects, pod, latest)
                self._handle.spawn(work, f"reservation of {meta.key}")

    def pre_bind_pre_flight(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> bool:
        """Tell whether the pod has claims."""
        return state.read(self.name, Attempt) is not None

    async def pre_bind(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> fw.Status:
        """Write finalizers, allocations and reservations; wait until the devices are ready."""
        attempt = state.read(self.name, Attempt)
        if attempt is None:
            return fw.SUCCESS
        if self._handle is None:
            return fw.failure("devices cannot be allocated here: there is no API server")
        try:
            for claim in attempt.claims:
                if not is_reserved_for(pod, claim):
                    await self._write(self._handle, attempt, claim)
            claims = attempt.claims
            if attempt.special is not None:
                await self._create_special(self._handle, attempt)
                claims = [*claims, attempt.special.claim]
        except ClaimBindingFailed as error:
            return fw.failure(str(error))
        objects = attempt.view.objects
        return await wait_until_ready(self._handle, objects, pod, node, claims, self._binding_timeout)

    async def _write(self, handle: fw.Handle, attempt: Attempt, claim: ResourceClaim) -> None:
        """Write a claim's allocation, if it gets one, and reserve it.

        Raises:
            BindingFailed: it cannot be had.
        """
        allocation = attempt.reserved.get(claim.metadata.uid)
        try:
            if allocation is not None:
                _require_own(attempt.ledger, allocation)
                if self._stamps:
                    now = datetime.fromtimestamp(handle.now(), UTC)
                    allocation = msgspec.structs.replace(allocation, allocation_timestamp=format_time(now))
            written = await bind_claim(handle, attempt.pod, claim, allocation)
            # Shown before the reservation ends: the devices are in use without a gap.
            if attempt.special is not None and claim is attempt.special.claim:
                await show_once_known(handle, attempt.view.objects, written)
            else:
                show(attempt.view.objects, written)
        finally:
            attempt.ledger.release(claim)

    async def _create_special(self, handle: fw.Handle, attempt: Attempt) -> None:
        """Create and write the claim for extended resources; have the pod's status name it.

        Raises:
            BindingFailed: it cannot be had.
        """
        assert attempt.special is not None
        status, created = await create_claim(handle, attempt.special, attempt.pod)
        outcome = "success" if status.is_success else "failure"
        if self._kubernetes.shares_claim_metric:
            handle.measure(_CREATED_1_37, 1, outcome, "false", "", "Pod")
        else:
            handle.measure(_CREATED, 1, outcome)
        if not status.is_success:
            raise ClaimBindingFailed(status.message)
        attempt.special_created(created)
        await self._write(handle, attempt, created)
        patch = pod_patch(attempt.special, created.metadata.name)
        status = await handle.patch_pod(attempt.pod, patch, "status")
        if not status.is_success:
            text = status.message
            raise ClaimBindingFailed(f"update pod {attempt.pod.key} ExtendedResourceClaimStatus: {text}")

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register everything that may give a claim devices."""
        return self._hints.registrations()


def _require_own(ledger: Ledger, allocation: ClaimAllocation) -> None:
    """Give a binding up whose devices somebody else has given away, as far as is known: nothing refuses the write."""
    device = ledger.conflict(allocation)
    if device is not None:
        raise ClaimBindingFailed(f"device {'/'.join(device)} got allocated to another claim in the meantime")


def _is_only_user(pod: fw.PodInfo, claim: ResourceClaim) -> bool:
    return all(consumer.uid == pod.uid for consumer in claim.status.reserved_for)
