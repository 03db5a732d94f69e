"""Formulas that several plugins share: taints, node selectors, rounding, load, reduction.

Pure: may import `scheduler.framework`, `scheduler.catalog`, `scheduler.kube.model` and `.primitives`. A formula that
only one plugin uses belongs into that plugin's package.
"""

from scheduler.helpers.doubleallocations import DoubleAllocations
from scheduler.helpers.extendedresources import (
    DEVICE_CLASS,
    ExtendedResources,
    asks_for_devices,
    implicit_name,
    may_be_devices,
)
from scheduler.helpers.kubeletrejections import KubeletRejections
from scheduler.helpers.reduce import PodReducer, class_key, normalized_image, reduce_node, reduce_pod
from scheduler.helpers.resources import covers
from scheduler.helpers.scoring import (
    default_normalize,
    go_divide,
    go_round,
    interpolate,
    min_max_normalize,
    round_half_away,
)
from scheduler.helpers.selecting import (
    labels_mask,
    node_matches,
    required_affinity_mask,
    selector_mask,
    term_mask,
    untolerated_mask,
)
from scheduler.helpers.stalerows import StaleRows
from scheduler.helpers.tolerations import (
    UNSCHEDULABLE_TAINT,
    count_untolerated_preferences,
    has_untolerated_taint,
    relevant_tolerations,
    tolerated,
    tolerates,
)
from scheduler.helpers.unreadable import UnreadablePod, salvage_pod

__all__ = [
    "DEVICE_CLASS",
    "UNSCHEDULABLE_TAINT",
    "DoubleAllocations",
    "ExtendedResources",
    "KubeletRejections",
    "PodReducer",
    "StaleRows",
    "UnreadablePod",
    "asks_for_devices",
    "class_key",
    "count_untolerated_preferences",
    "covers",
    "default_normalize",
    "go_divide",
    "go_round",
    "has_untolerated_taint",
    "implicit_name",
    "interpolate",
    "labels_mask",
    "may_be_devices",
    "min_max_normalize",
    "node_matches",
    "normalized_image",
    "reduce_node",
    "reduce_pod",
    "relevant_tolerations",
    "required_affinity_mask",
    "round_half_away",
    "salvage_pod",
    "selector_mask",
    "term_mask",
    "tolerated",
    "tolerates",
    "untolerated_mask",
]
