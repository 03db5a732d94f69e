"""Quantities, selectors and times exactly as Kubernetes reads them.

What belongs here: pure functions on API values that configuration, scheduler and operator share. Standard library only,
no I/O, no import of the rest of the project.
"""

from scheduler.kube.primitives.quantity import (
    BINARY_SUFFIXES as BINARY_SUFFIXES,
    DECIMAL_SUFFIXES as DECIMAL_SUFFIXES,
    INT64_MAX as INT64_MAX,
    INT64_MIN as INT64_MIN,
    QuantityError as QuantityError,
    QuantityFormat as QuantityFormat,
    canonical as canonical,
    exact_quantity as exact_quantity,
    format_milli as format_milli,
    format_value as format_value,
    parse_quantity as parse_quantity,
    quantity_milli_value as quantity_milli_value,
    quantity_value as quantity_value,
)
from scheduler.kube.primitives.selectors import (
    ANY_VALUE as ANY_VALUE,
    EVERYTHING as EVERYTHING,
    NOTHING as NOTHING,
    CompiledNodeSelector as CompiledNodeSelector,
    CompiledNodeSelectorTerm as CompiledNodeSelectorTerm,
    RequirementLike as RequirementLike,
    Selector as Selector,
    SelectorError as SelectorError,
    Values as Values,
    WeightedTerm as WeightedTerm,
    conjunction as conjunction,
    label_selector as label_selector,
    node_selector as node_selector,
    preferred_terms as preferred_terms,
    selector_from_set as selector_from_set,
)
from scheduler.kube.primitives.timestamps import (
    RFC3339 as RFC3339,
    TimestampError as TimestampError,
    epoch_seconds as epoch_seconds,
    format_micro_time as format_micro_time,
    format_seconds as format_seconds,
    format_time as format_time,
    parse_time as parse_time,
    time_layout as time_layout,
)
