"""Dynamic Resource Allocation, resource.k8s.io/v1: claims, classes and slices, with the fields that placing pods needs.

ResourceClaimTemplates are for simulations: the resourceclaim controller makes claims of them; no scheduler reads them.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from scheduler.kube.model.meta import MAX_LISTED, Int64, Listed, Object, ObjectMeta, OwnerReference
from scheduler.kube.model.pod import NodeSelector, require_few

Amount = str | int | float
"""A quantity as text; hand-written files may hold a bare number."""


class ClaimMeta(ObjectMeta, frozen=True, gc=False, rename="camel"):
    """metav1.ObjectMeta with the finalizers, which a scheduler adds to.

    Nothing that the owner of a claim may write keeps it from being read: its devices would look free.
    """

    labels: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class CelSelector(Struct, frozen=True, gc=False, rename="camel"):
    """CELDeviceSelector."""

    expression: str = ""


class DeviceSelector(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceSelector; without `cel` it is of a kind that is not known here."""

    cel: CelSelector | None = None


class DeviceToleration(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """DeviceToleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequirements(Struct, frozen=True, gc=False, rename="camel"):
    """CapacityRequirements."""

    requests: Annotated[dict[str, Amount], Meta(max_length=MAX_LISTED)] = {}


class ExactRequest(Struct, frozen=True, gc=False, rename="camel"):
    """ExactDeviceRequest, or DeviceSubRequest, which has a name and no `admin_access`."""

    name: str = ""
    device_class_name: str = ""
    selectors: Listed[DeviceSelector] = ()
    allocation_mode: str = "ExactCount"
    count: Int64 = 1
    admin_access: bool | None = None
    tolerations: Listed[DeviceToleration] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceRequest: one of `exactly` and `first_available`."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: Listed[ExactRequest] = ()


class DeviceConstraint(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceConstraint: one of `match_attribute` and `distinct_attribute`."""

    requests: Listed[str] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueConfig(Struct, frozen=True, gc=False, rename="camel"):
    """OpaqueDeviceConfiguration: parameters are the driver's business, and handed on as they are."""

    driver: str = ""
    parameters: Any = None


class DeviceConfig(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """DeviceClassConfiguration, DeviceClaimConfiguration (with `requests`) and DeviceAllocationConfiguration (with
    `source`, too)."""

    source: str = ""
    requests: Listed[str] = ()
    opaque: OpaqueConfig | None = None


class DeviceClaim(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceClaim: what a claim asks for."""

    requests: Listed[DeviceRequest] = ()
    constraints: Listed[DeviceConstraint] = ()
    config: Listed[DeviceConfig] = ()


class DeviceResult(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """DeviceRequestAllocationResult."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: Listed[DeviceToleration] = ()
    binding_conditions: Listed[str] = ()
    binding_failure_conditions: Listed[str] = ()
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: Annotated[dict[str, Amount], Meta(max_length=MAX_LISTED)] = {}


class AllocationResult(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """DeviceAllocationResult."""

    results: Listed[DeviceResult] = ()
    config: Listed[DeviceConfig] = ()


class ClaimAllocation(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """AllocationResult: what was given to a claim, and where it can be used (everywhere without a selector)."""

    devices: AllocationResult = AllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a node selector that lists too much."""
        require_few(self.node_selector)


class ClaimConsumer(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """ResourceClaimConsumerReference: who may use a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceCondition(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.Condition of a device."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ClaimDeviceStatus(Struct, frozen=True, gc=False, rename="camel"):
    """AllocatedDeviceStatus: what a driver reports of a device of a claim, as far as binding waits for it."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: Listed[DeviceCondition] = ()


class ResourceClaimStatus(Struct, frozen=True, gc=False, rename="camel"):
    """ResourceClaimStatus."""

    allocation: ClaimAllocation | None = None
    reserved_for: Listed[ClaimConsumer] = ()
    devices: Listed[ClaimDeviceStatus] = ()


class ResourceClaimSpec(Struct, frozen=True, gc=False, rename="camel"):
    """ResourceClaimSpec."""

    devices: DeviceClaim = DeviceClaim()


class ResourceClaim(Object, frozen=True, gc=False, rename="camel"):
    """resource.k8s.io/v1 ResourceClaim."""

    metadata: ClaimMeta = ClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct, frozen=True, gc=False, rename="camel"):
    """ResourceClaimTemplateSpec."""

    metadata: ClaimMeta = ClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Object, frozen=True, gc=False, rename="camel"):
    """resource.k8s.io/v1 ResourceClaimTemplate."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceClassSpec."""

    selectors: Listed[DeviceSelector] = ()
    config: Listed[DeviceConfig] = ()
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True, gc=False, rename="camel"):
    """resource.k8s.io/v1 DeviceClass."""

    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceAttribute: one of the values."""

    int_: Int64 | None = field(default=None, name="int")
    bool_: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRequestRange(Struct, frozen=True, gc=False, rename="camel"):
    """CapacityRequestPolicyRange."""

    min_: Amount | None = field(default=None, name="min")
    max_: Amount | None = field(default=None, name="max")
    step: Amount | None = None


class CapacityRequestPolicy(Struct, frozen=True, gc=False, rename="camel"):
    """CapacityRequestPolicy: how much of a capacity a request may take."""

    default: Amount | None = None
    valid_values: Listed[Amount] = ()
    valid_range: CapacityRequestRange | None = None


class DeviceCapacity(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceCapacity."""

    value: Amount = "0"
    request_policy: CapacityRequestPolicy | None = None


class DeviceTaint(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceTaint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class DeviceTaintSelector(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceTaintSelector: a device has to agree with all that is set."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceTaintRuleSpec; without a selector it is for all devices."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Object, frozen=True, gc=False, rename="camel"):
    """resource.k8s.io/v1 DeviceTaintRule, since 1.37: an administrator's taint for devices."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


class Counter(Struct, frozen=True, gc=False, rename="camel"):
    """Counter."""

    value: Amount = "0"


class CounterConsumption(Struct, frozen=True, gc=False, rename="camel"):
    """DeviceCounterConsumption: what a device takes of a set of counters."""

    counter_set: str = ""
    counters: Annotated[dict[str, Counter], Meta(max_length=MAX_LISTED)] = {}


class CounterSet(Struct, frozen=True, gc=False, rename="camel"):
    """CounterSet."""

    name: str = ""
    counters: Annotated[dict[str, Counter], Meta(max_length=MAX_LISTED)] = {}


class Device(Struct, frozen=True, gc=False, rename="camel"):
    """Device. Node choice counts only where its slice says `per_device_node_selection`."""

    name: str = ""
    attributes: Annotated[dict[str, DeviceAttribute], Meta(max_length=MAX_LISTED)] = {}
    capacity: Annotated[dict[str, DeviceCapacity], Meta(max_length=MAX_LISTED)] = {}
    consumes_counters: Listed[CounterConsumption] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: Listed[DeviceTaint] = ()
    binds_to_node: bool = False
    binding_conditions: Listed[str] = ()
    binding_failure_conditions: Listed[str] = ()
    allow_multiple_allocations: bool | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a node selector that lists too much."""
        require_few(self.node_selector)


class ResourcePool(Struct, frozen=True, gc=False, rename="camel"):
    """ResourcePool: which pool a slice is part of, and of how many slices the pool consists."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Struct, frozen=True, gc=False, rename="camel"):
    """ResourceSliceSpec."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: Listed[Device] = ()
    per_device_node_selection: bool | None = None
    shared_counters: Listed[CounterSet] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a node selector that lists too much."""
        require_few(self.node_selector)


class ResourceSlice(Object, frozen=True, gc=False, rename="camel"):
    """resource.k8s.io/v1 ResourceSlice: devices that a driver offers, on a node or beyond nodes."""

    spec: ResourceSliceSpec = ResourceSliceSpec()
