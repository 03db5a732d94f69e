"""DynamicResources: pods with resource claims wait, with a reason, until this scheduler can allocate devices.

A pod with a claim is never placed: without an allocation its containers could not start. Pods without claims see
what upstream's plugin does for them, which is a part of the FailedScheduling message.
"""

from collections.abc import Mapping, Sequence

from scheduler.catalog import DynamicResourcesArgs
from scheduler.framework import (
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    DependsOn,
    EnqueueExtensions,
    FilterPlugin,
    HintRegistration,
    Locality,
    LocalPlugin,
    NodeView,
    PluginContext,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    RowArray,
    Status,
    Verdicts,
    failure,
    unresolvable,
    unschedulable,
)

REASON = (
    "resource claims are not supported by this scheduler yet: remove spec.resourceClaims from the pod, "
    "or give it to a scheduler that allocates devices"
)
NO_CLAIMS = "no new claims to deallocate"


class _PreFilterRan:
    """Mark of an attempt in which PreFilter got as far as this plugin."""


class DynamicResources:
    """Parks pods with resource claims."""

    name = "DynamicResources"

    def __init__(self, args: DynamicResourcesArgs, context: PluginContext) -> None:
        pass

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Let every pod in: what is parked here is parked silently, and the reason belongs into the pod's status."""
        return SUCCESS

    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        """Reject pods with claims for good; Skip the others."""
        state.write(self.name, _PreFilterRan())
        return None, unresolvable(REASON) if pod.spec.claims else SKIP

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Never called with claims, as PreFilter ends such attempts."""
        return None

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Pods without claims pass."""
        return Locality(filters=DependsOn.ANYTHING if pod.spec.claims else DependsOn.NOTHING)

    def post_filter(
        self, state: CycleState, pod: PodInfo, view: NodeView, codes: Mapping[str, int]
    ) -> tuple[PostFilterResult | None, Status]:
        """Add upstream's words: nothing to free, or the error it makes when PreFilter ended before this plugin."""
        if state.read(self.name, _PreFilterRan) is None:
            return None, failure("not found")
        if pod.spec.claims:
            # Preemption cannot help: end PostFilter, and add nothing to the reason.
            return None, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        return None, unschedulable(NO_CLAIMS)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Nothing to allocate."""
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Nothing was allocated."""

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Nothing was allocated."""
        return SUCCESS

    def events_to_register(self) -> Sequence[HintRegistration]:
        """None: no event makes a pod with claims fit, as its claims cannot be changed."""
        return ()


# Checked by mypy: the extension points of the descriptor, and the optional Protocols that the framework looks for.
_PRE_ENQUEUE: type[PreEnqueuePlugin] = DynamicResources
_PRE_FILTER: type[PreFilterPlugin] = DynamicResources
_FILTER: type[FilterPlugin] = DynamicResources
_POST_FILTER: type[PostFilterPlugin] = DynamicResources
_RESERVE: type[ReservePlugin] = DynamicResources
_PRE_BIND: type[PreBindPlugin] = DynamicResources
_ENQUEUE_EXTENSIONS: type[EnqueueExtensions] = DynamicResources
_LOCAL: type[LocalPlugin] = DynamicResources
