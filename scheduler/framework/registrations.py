"""The events that may help a pod, by who rejected it."""

from scheduler.catalog import ActionType
from scheduler.framework.events import NODE, POD, HintRegistration
from scheduler.framework.interface import EnqueueExtensions, Plugin

_CORE_KINDS = (POD, NODE, "PersistentVolume", "PersistentVolumeClaim", "CSINode", "CSIDriver", "CSIStorageCapacity")
ALL_EVENTS = tuple(
    HintRegistration(kind, ActionType.ALL) for kind in (*_CORE_KINDS, "StorageClass", "ResourceClaim", "DeviceClass")
)
"""What wakes pods that were rejected by somebody who does not say what may help: a plugin without EnqueueExtensions, or
an extender."""


def registrations_of(plugin: Plugin) -> tuple[HintRegistration, ...]:
    """Return the events that may help a pod that a plugin rejected.

    A plugin that asks for Node Add but not for taint updates gets those too: a node may be added with a taint
    that TaintToleration filtered it out by, and be missed for ever (upstream adds the same).
    """
    if not isinstance(plugin, EnqueueExtensions):
        return ALL_EVENTS
    events = tuple(plugin.events_to_register())
    nodes = ActionType(0)
    for event in events:
        if event.resource == NODE:
            nodes |= event.actions
    if nodes & ActionType.ADD and not nodes & ActionType.UPDATE_NODE_TAINT:
        events += (HintRegistration(NODE, ActionType.UPDATE_NODE_TAINT),)
    return events
