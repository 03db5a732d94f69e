"""What bounds the work that each list and map of the model may be: somebody else wrote it, and it may be as long as an
object may be large (1.5 MB, etcd's limit).

A field is of one of four kinds:

- READ_TO: it has a `max_length`. An object with more is left out as one that cannot be decoded, logged and counted; of
  a pod on a node what it occupies is counted all the same.
- CHARGED: an attempt walks through it, and its meter is charged (`scheduler.framework.Work`).
- ONCE: it is walked through once per version of its object, when that comes: in time that grows with the object alone.
- LOOKED_UP: nothing walks through it; an entry is looked up, or all of it is handed on.

The table is for people and for tests: docs/security.md shows it, and a field without a row fails a test.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec.inspect
from msgspec import Struct

from scheduler.kube.model.meta import Object


class Kind(enum.StrEnum):
    """What keeps the work within bounds."""

    READ_TO = "read up to"
    CHARGED = "charged"
    ONCE = "once per version"
    LOOKED_UP = "not walked"


class Bound(NamedTuple):
    """A field's bound: for READ_TO how many entries, for CHARGED which plugins charge, else why it needs no other."""

    kind: Kind
    by: str


def _charged(plugins: str) -> Bound:
    return Bound(Kind.CHARGED, plugins)


def _once(why: str) -> Bound:
    return Bound(Kind.ONCE, why)


def _looked_up(why: str) -> Bound:
    return Bound(Kind.LOOKED_UP, why)


_TERMS = _charged("InterPodAffinity; on nodes: preemption")
_REDUCED = _once("reduced to what placement needs when the pod comes")
_COMPILED = _charged("of pods InterPodAffinity, PodTopologySpread, of claims VolumeBinding; of others: 1024 in all")
_CLAIM_META = _looked_up("handed on when the claim is written")

ROWS: Mapping[tuple[str, str], Bound] = {
    ("ObjectMeta", "annotations"): _looked_up("by key"),
    ("ClaimMeta", "labels"): _CLAIM_META,
    ("ClaimMeta", "annotations"): _CLAIM_META,
    ("ClaimMeta", "owner_references"): _CLAIM_META,
    ("ClaimMeta", "finalizers"): _CLAIM_META,
    ("TemplateMeta", "labels"): _looked_up("handed on"),
    ("TemplateMeta", "annotations"): _looked_up("handed on"),
    ("LabelSelector", "match_labels"): _COMPILED,
    ("LabelSelector", "match_expressions"): _COMPILED,
    ("LabelSelectorRequirement", "values"): _COMPILED,
    ("PodDisruptionBudgetStatus", "disrupted_pods"): _looked_up("by a pod's name"),
    ("NodeSelector", "node_selector_terms"): _charged("NodeAffinity; of volumes and devices: 1024 in all"),
    ("NodeSelectorTerm", "match_expressions"): _charged("NodeAffinity; of volumes and devices: 1024 in all"),
    ("NodeSelectorTerm", "match_fields"): _charged("NodeAffinity; of volumes and devices: 1024 in all"),
    ("NodeSelectorRequirement", "values"): _charged("NodeAffinity; of volumes and devices: 1024 in all"),
    ("NodeAffinity", "preferred_during_scheduling_ignored_during_execution"): _charged("NodeAffinity"),
    ("PodAffinity", "required_during_scheduling_ignored_during_execution"): _TERMS,
    ("PodAffinity", "preferred_during_scheduling_ignored_during_execution"): _TERMS,
    ("PodAffinityTerm", "namespaces"): _charged("InterPodAffinity"),
    ("PodAffinityTerm", "match_label_keys"): _looked_up("the API server has merged them"),
    ("PodAffinityTerm", "mismatch_label_keys"): _looked_up("the API server has merged them"),
    ("TopologySpreadConstraint", "match_label_keys"): _charged("PodTopologySpread"),
    ("PodSpec", "node_selector"): _charged("NodeAffinity"),
    ("PodSpec", "tolerations"): _charged("TaintToleration"),
    ("PodSpec", "containers"): _charged("NodeResourcesFit, ImageLocality, NodeResourceTopologyMatch, SySched"),
    ("PodSpec", "init_containers"): _charged("NodeResourcesFit, ImageLocality, NodeResourceTopologyMatch, SySched"),
    ("PodSpec", "topology_spread_constraints"): _charged("PodTopologySpread"),
    ("PodSpec", "volumes"): _charged("VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits"),
    ("PodSpec", "resource_claims"): _charged("DynamicResources"),
    ("Container", "ports"): _charged("NodePorts"),
    ("Container", "restart_policy_rules"): _REDUCED,
    ("ResourceRequirements", "requests"): _charged("NodeResourcesFit, NodeResourceTopologyMatch"),
    ("ResourceRequirements", "limits"): _REDUCED,
    ("ResourceRequirements", "claims"): _REDUCED,
    ("PodStatus", "container_statuses"): _REDUCED,
    ("PodStatus", "init_container_statuses"): _REDUCED,
    ("PodStatus", "resource_claim_statuses"): _REDUCED,
}
"""By class and field, those that no `max_length` bounds."""


def fields() -> Iterator[tuple[str, str, Bound | None]]:
    """Yield class, field and bound of every list and map of a kind that is read; None where it has no bound."""
    for model in sorted(_classes(), key=lambda model: model.__name__):
        info = msgspec.inspect.type_info(model)
        assert isinstance(info, msgspec.inspect.StructType)
        for field in info.fields:
            limits = [*_limits(field.type)]
            if limits:
                bound = ROWS.get((model.__name__, field.name))
                if None not in limits:
                    bound = Bound(Kind.READ_TO, f"{max(limit or 0 for limit in limits)}")
                yield model.__name__, field.name, bound


def _classes() -> set[type[Struct]]:
    bounded: set[type[Struct]] = set()
    waiting: list[type[Struct]] = [*Object.__subclasses__()]
    while waiting:
        model = waiting.pop()
        if model in bounded or not model.__module__.startswith("scheduler.kube.model") or model.__name__ in _OTHERS:
            continue
        bounded.add(model)
        info = msgspec.inspect.type_info(model)
        assert isinstance(info, msgspec.inspect.StructType)
        for field in info.fields:
            waiting += _structs(field.type)
    return bounded


_OTHERS = ("Unstructured",)
"""Objects that are handed on as a whole: extenders are sent them, the page shows them."""


def _structs(kind: msgspec.inspect.Type) -> Iterator[type[Struct]]:
    if isinstance(kind, msgspec.inspect.StructType):
        yield kind.cls
    for child in _children(kind):
        yield from _structs(child)


def _children(kind: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    if isinstance(kind, msgspec.inspect.UnionType):
        yield from kind.types
    elif isinstance(kind, msgspec.inspect.DictType):
        yield kind.value_type
    elif isinstance(kind, msgspec.inspect.CollectionType):
        yield kind.item_type
    elif isinstance(kind, msgspec.inspect.Metadata):
        yield kind.type


def _limits(kind: msgspec.inspect.Type) -> Iterator[int | None]:
    """Yield the `max_length` of the list or map that a field is."""
    if isinstance(kind, (msgspec.inspect.CollectionType, msgspec.inspect.DictType)):
        yield kind.max_length
    elif isinstance(kind, (msgspec.inspect.UnionType, msgspec.inspect.Metadata)):
        for child in _children(kind):
            yield from _limits(child)


def table() -> str:
    """Return the table as Markdown, fields with the same bound in one row."""
    rows: dict[Bound, list[str]] = {}
    for model, field, bound in fields():
        rows.setdefault(bound or Bound(Kind.ONCE, "nothing"), []).append(f"`{model}.{_camel(field)}`")
    order = list(Kind)
    lines = ["| lists and maps | bound |", "|---|---|"]
    for bound, names in sorted(rows.items(), key=lambda item: (order.index(item[0].kind), item[0].by)):
        lines += [f"| {', '.join(part)} | {_text(bound)} |" for part in _parts(names)]
    return "\n".join(lines)


_WIDTH = 8


def _parts(names: list[str]) -> list[list[str]]:
    return [names[start : start + _WIDTH] for start in range(0, len(names), _WIDTH)]


def _text(bound: Bound) -> str:
    return f"{bound.kind} {bound.by}" if bound.kind is Kind.READ_TO else f"{bound.kind}: {bound.by}"


def _camel(name: str) -> str:
    first, *others = name.rstrip("_").split("_")
    return first + "".join(map(str.capitalize, others))


def bounded_paths(model: type[Any]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield every list and map of a kind that has a `max_length`: the path of its JSON names, with "*" for an entry of
    a list or map, and how many entries are read."""
    yield from _paths(msgspec.inspect.type_info(model), (), ())


def _paths(
    kind: msgspec.inspect.Type, path: tuple[str, ...], above: tuple[type[Struct], ...]
) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(kind, msgspec.inspect.StructType):
        if kind.cls in above:
            return
        for field in kind.fields:
            yield from _paths(field.type, (*path, field.encode_name), (*above, kind.cls))
        return
    if isinstance(kind, (msgspec.inspect.CollectionType, msgspec.inspect.DictType)):
        if kind.max_length is not None:
            yield path, kind.max_length
        path = (*path, "*")
    for child in _children(kind):
        yield from _paths(child, path, above)
