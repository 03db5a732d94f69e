"""Formulas that several plugins share: taints, node selectors, rounding, load, reduction.

Pure: may import `scheduler.framework`, `scheduler.catalog`, `scheduler.kube.model` and `.primitives`. A formula that
only one plugin uses belongs into that plugin's package.
"""

from scheduler.helpers.doubleallocations import DoubleAllocations as DoubleAllocations
from scheduler.helpers.extendedresources import (
    DEVICE_CLASS as DEVICE_CLASS,
    ExtendedResources as ExtendedResources,
    asks_for_devices as asks_for_devices,
    implicit_name as implicit_name,
    may_be_devices as may_be_devices,
)
from scheduler.helpers.kubeletrejections import KubeletRejections as KubeletRejections
from scheduler.helpers.reduce import (
    PodReducer as PodReducer,
    class_key as class_key,
    normalized_image as normalized_image,
    reduce_node as reduce_node,
    reduce_pod as reduce_pod,
)
from scheduler.helpers.resources import covers as covers
from scheduler.helpers.scoring import (
    default_normalize as default_normalize,
    go_divide as go_divide,
    go_round as go_round,
    interpolate as interpolate,
    min_max_normalize as min_max_normalize,
    round_half_away as round_half_away,
)
from scheduler.helpers.selecting import (
    labels_mask as labels_mask,
    node_matches as node_matches,
    required_affinity_mask as required_affinity_mask,
    selector_mask as selector_mask,
    term_mask as term_mask,
    untolerated_mask as untolerated_mask,
)
from scheduler.helpers.stalerows import StaleRows as StaleRows
from scheduler.helpers.tolerations import (
    UNSCHEDULABLE_TAINT as UNSCHEDULABLE_TAINT,
    count_untolerated_preferences as count_untolerated_preferences,
    has_untolerated_taint as has_untolerated_taint,
    relevant_tolerations as relevant_tolerations,
    tolerated as tolerated,
    tolerates as tolerates,
)
from scheduler.helpers.unreadable import UnreadablePod as UnreadablePod, salvage_pod as salvage_pod
