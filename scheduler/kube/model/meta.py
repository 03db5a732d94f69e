"""What every API object has in common."""

from __future__ import annotations

import enum
from functools import cached_property
from typing import Annotated, NewType, TypeAlias, TypeVar

from msgspec import Meta, Struct, field

from scheduler.kube.primitives import NOTHING, Selector, SelectorError, label_selector

NodeName = NewType("NodeName", str)
PodUID = NewType("PodUID", str)
ResourceVersion = NewType("ResourceVersion", str)

ResourceList: TypeAlias = dict[str, str | int | float]
"""Quantities by resource name; read them with `kube.primitives.quantity`. Bare numbers occur in hand-written files."""

T = TypeVar("T")
MAX_LISTED = 1024
Listed: TypeAlias = Annotated[tuple[T, ...], Meta(max_length=MAX_LISTED)]
"""A list of which an object with more entries is not read (`scheduler.kube.model.bounds`)."""
Labels: TypeAlias = Annotated[dict[str, str], Meta(max_length=4096)]
FewResources: TypeAlias = Annotated[ResourceList, Meta(max_length=MAX_LISTED)]

Int32: TypeAlias = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64: TypeAlias = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Go's integer types: JSON has none, and a larger number must not reach an array of int64."""


class EventType(enum.StrEnum):
    """What a watch says happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class OwnerReference(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.OwnerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ObjectMeta(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.ObjectMeta; times are the API's RFC 3339 text."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: ResourceVersion = ResourceVersion("")
    generation: Int64 = 0
    labels: Labels = {}
    annotations: dict[str, str] = {}
    owner_references: Listed[OwnerReference] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None

    @property
    def key(self) -> str:
        """Return `namespace/name`, or the bare name of a cluster-wide object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls this object, if any."""
        for reference in self.owner_references:
            if reference.controller:
                return reference
        return None


class Object(Struct, frozen=True, gc=False, rename="camel"):
    """Any API object; subclasses add what they read."""

    metadata: ObjectMeta = ObjectMeta()


class ListMeta(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.ListMeta."""

    resource_version: ResourceVersion = ResourceVersion("")
    continue_: str = field(default="", name="continue")
    remaining_item_count: Int64 | None = None


class StatusCause(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.StatusCause: one of several reasons for a failure, such as a conflicting field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.StatusDetails."""

    name: str = ""
    kind: str = ""
    retry_after_seconds: Int32 = 0
    causes: Listed[StatusCause] = ()


class Status(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.Status: how the API server words a failure."""

    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    code: Int32 = 0
    details: StatusDetails | None = None


class LabelSelectorRequirement(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.LabelSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, dict=True, rename="camel"):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()

    @cached_property
    def _compiled(self) -> Selector | SelectorError:
        try:
            return label_selector(self)
        except SelectorError as error:
            return error


def compiled_selector(selector: LabelSelector | None) -> Selector:
    """Return a selector ready to match (LabelSelectorAsSelector). It is compiled once per object version: what a tenant
    lists in it is not gone through in every attempt.

    Raises:
        SelectorError: Kubernetes would refuse it.
    """
    if selector is None:
        return NOTHING
    result = selector._compiled
    if isinstance(result, SelectorError):
        raise SelectorError(str(result))
    return result


def require_short(selector: LabelSelector | None) -> None:
    """Raise ValueError for a selector that lists too much.

    Of those that attempts at the pods of others compile or compare; a pod's own and its claims' are charged for.
    """
    if selector is None:
        return
    listed = len(selector.match_labels) + sum(1 + len(requirement.values) for requirement in selector.match_expressions)
    if listed > MAX_LISTED:
        raise ValueError(f"the selector lists {listed} labels, expressions and values, at most {MAX_LISTED} are read")


def newer_version(candidate: str, current: str) -> bool | None:
    """Compare resource versions: True if newer, False if older or equal, None where they are not integers.

    Built-in resources and custom resources have comparable versions; aggregated API servers need not.
    """
    if not (candidate.isdecimal() and current.isdecimal()):
        return None
    return int(candidate) > int(current)
