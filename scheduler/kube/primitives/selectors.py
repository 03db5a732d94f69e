"""Label and node selectors, compiled once and matched often.

Semantics of k8s.io/apimachinery/pkg/labels and k8s.io/component-helpers/scheduling/corev1/nodeaffinity (v0.34): an
invalid requirement makes a label selector an error and a node selector *term* one that never matches.
Compiled selectors are immutable, hashable and equal when they select alike by construction, so that they may be keys.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from scheduler.kube.primitives.quantity import INT64_MAX


class SelectorOperator(enum.StrEnum):
    """Operators of NodeSelectorRequirement; a label selector has all but Gt and Lt."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class SelectorError(ValueError):
    """A selector that Kubernetes would refuse; the message names the key and the rule."""


class RequirementLike(Protocol):
    """LabelSelectorRequirement and NodeSelectorRequirement as the model holds them."""

    @property
    def key(self) -> str:
        """Label key, or field path in matchFields."""

    @property
    def operator(self) -> str:
        """One of `SelectorOperator`, not yet checked."""

    @property
    def values(self) -> Sequence[str]:
        """Values of the operator; empty where it takes none."""


class LabelSelectorLike(Protocol):
    """metav1.LabelSelector as the model holds it."""

    @property
    def match_labels(self) -> Mapping[str, str]:
        """Keys that must have exactly this value."""

    @property
    def match_expressions(self) -> Sequence[RequirementLike]:
        """Requirements, all of which must hold."""


class NodeSelectorTermLike(Protocol):
    """v1.NodeSelectorTerm as the model holds it."""

    @property
    def match_expressions(self) -> Sequence[RequirementLike]:
        """Requirements, all of which must hold."""

    @property
    def match_fields(self) -> Sequence[RequirementLike]:
        """Requirements on metadata.name."""


class PreferredTermLike(Protocol):
    """v1.PreferredSchedulingTerm as the model holds it."""

    @property
    def weight(self) -> int:
        """1 to 100."""

    @property
    def preference(self) -> NodeSelectorTermLike:
        """The term that earns the weight."""


_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on labels. Build it with `requirement`, which validates."""

    key: str
    operator: SelectorOperator
    values: frozenset[str] = frozenset()
    bound: int = 0
    """The right-hand side of Gt and Lt."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether the labels satisfy this; NotIn and DoesNotExist also match where the key is absent."""
        value = labels.get(self.key)
        match self.operator:
            case SelectorOperator.IN:
                return value is not None and value in self.values
            case SelectorOperator.NOT_IN:
                return value is None or value not in self.values
            case SelectorOperator.EXISTS:
                return value is not None
            case SelectorOperator.DOES_NOT_EXIST:
                return value is None
            case _:
                number = _parse_int64(value) if value is not None else None
                if number is None:
                    return False
                return number > self.bound if self.operator is SelectorOperator.GT else number < self.bound


_OPERATORS: Final[Mapping[str, SelectorOperator]] = {each.value: each for each in SelectorOperator}
_WITH_VALUES: Final = frozenset({SelectorOperator.IN, SelectorOperator.NOT_IN})
_WITHOUT_VALUES: Final = frozenset({SelectorOperator.EXISTS, SelectorOperator.DOES_NOT_EXIST})
_ORDERED: Final[frozenset[str]] = frozenset({SelectorOperator.GT, SelectorOperator.LT})


def requirement(key: str, operator: str, values: Sequence[str]) -> Requirement:
    """Validate and compile one requirement (labels.NewRequirement); raise SelectorError."""
    op = _OPERATORS.get(operator)
    if op is None:
        raise SelectorError(
            f"selector key {_quote(key)}: operator {_quote(operator)} is not one of In, NotIn, Exists, "
            "DoesNotExist, Gt, Lt"
        )
    _check_key(key)
    for value in values:
        if len(value) > 63 or (value and _NAME.fullmatch(value) is None):
            raise SelectorError(
                f"selector key {_quote(key)}: {_quote(value)} is not a label value (at most 63 letters, "
                "digits, '-', '_', '.', starting and ending with a letter or digit)"
            )
    bound = 0
    if op in _WITH_VALUES:
        if not values:
            raise SelectorError(f"selector key {_quote(key)}: {op} needs at least one value")
    elif op in _WITHOUT_VALUES:
        if values:
            raise SelectorError(f"selector key {_quote(key)}: {op} takes no values")
    else:
        number = _parse_int64(values[0]) if len(values) == 1 else None
        if number is None:
            raise SelectorError(f"selector key {_quote(key)}: {op} needs exactly one integer value")
        bound = number
    return Requirement(key, op, frozenset(values), bound)


@dataclass(frozen=True, slots=True)
class Selector:
    """A conjunction of requirements on labels."""

    requirements: frozenset[Requirement] = frozenset()
    nothing: bool = False
    """True for the selector that an absent (nil) LabelSelector stands for: it selects no object."""

    @property
    def everything(self) -> bool:
        """True for the empty selector, which selects every object."""
        return not self.requirements and not self.nothing

    @property
    def keys(self) -> frozenset[str]:
        """The label keys the verdict depends on."""
        return frozenset(requirement.key for requirement in self.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether an object with these labels is selected."""
        if self.nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    def with_values(self, labels: Mapping[str, str]) -> Selector:
        """Return this selector AND `key In (value)` for each label (what matchLabelKeys adds)."""
        extra = frozenset(Requirement(key, SelectorOperator.IN, frozenset((value,))) for key, value in labels.items())
        return Selector(self.requirements | extra, self.nothing)


NOTHING: Final = Selector(nothing=True)
EVERYTHING: Final = Selector()


def label_selector(source: LabelSelectorLike | None) -> Selector:
    """Compile a metav1.LabelSelector (LabelSelectorAsSelector): None selects nothing, empty selects everything."""
    if source is None:
        return NOTHING
    parts = [requirement(key, SelectorOperator.IN, (value,)) for key, value in source.match_labels.items()]
    for expression in source.match_expressions:
        if expression.operator in _ORDERED:
            raise SelectorError(f"{_quote(expression.operator)} is not a valid label selector operator")
        parts.append(requirement(expression.key, expression.operator, expression.values))
    return Selector(frozenset(parts))


def selector_from_set(labels: Mapping[str, str]) -> Selector:
    """Compile a plain map such as spec.nodeSelector (labels.SelectorFromSet): not validated; empty is everything."""
    return Selector(
        frozenset(Requirement(key, SelectorOperator.IN, frozenset((value,))) for key, value in labels.items())
    )


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """`field == value` or `field != value` on a Node's fields; only metadata.name ever has a value."""

    key: str
    value: str
    negated: bool = False

    def matches(self, node_name: str) -> bool:
        """Say whether the node of this name satisfies it."""
        return ((node_name if self.key == "metadata.name" else "") == self.value) is not self.negated


@dataclass(frozen=True, slots=True)
class CompiledNodeSelectorTerm:
    """One compiled, non-empty term: labels AND fields. `error` is set when it is invalid; then it never matches."""

    labels: Selector
    fields: tuple[FieldRequirement, ...] = ()
    error: str | None = None

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Say whether the node satisfies the term; fields are not looked at for a node without a name."""
        if self.error is not None or not self.labels.matches(labels):
            return False
        return not node_name or all(field_requirement.matches(node_name) for field_requirement in self.fields)

    def node_names(self) -> frozenset[str] | None:
        """Return the only nodes that can match by `metadata.name In [x]`, or None where the term names none."""
        names = {
            field_requirement.value
            for field_requirement in self.fields
            if field_requirement.key == "metadata.name" and not field_requirement.negated
        }
        if not names:
            return None
        return frozenset(names) if len(names) == 1 else frozenset()


@dataclass(frozen=True, slots=True)
class CompiledNodeSelector:
    """Terms of which one must match; no terms match no node."""

    terms: tuple[CompiledNodeSelectorTerm, ...]

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Say whether any term matches the node."""
        return any(term.matches(node_name, labels) for term in self.terms)

    @property
    def errors(self) -> tuple[str, ...]:
        """Why invalid terms are invalid."""
        return tuple(term.error for term in self.terms if term.error is not None)


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A preferred term that counts `weight` where it matches."""

    weight: int
    term: CompiledNodeSelectorTerm


def node_selector(terms: Iterable[NodeSelectorTermLike]) -> CompiledNodeSelector:
    """Compile nodeSelectorTerms (NewLazyErrorNodeSelector): empty terms match nothing and are left out."""
    return CompiledNodeSelector(tuple(_term(term) for term in terms if term.match_expressions or term.match_fields))


def preferred_terms(terms: Iterable[PreferredTermLike]) -> tuple[WeightedTerm, ...]:
    """Compile preferred terms; weight 0 and empty terms are left out; SelectorError if one is invalid (as upstream)."""
    compiled = []
    for preferred in terms:
        preference = preferred.preference
        if preferred.weight == 0 or not (preference.match_expressions or preference.match_fields):
            continue
        term = _term(preference)
        if term.error is not None:
            raise SelectorError(term.error)
        compiled.append(WeightedTerm(preferred.weight, term))
    return tuple(compiled)


def _term(source: NodeSelectorTermLike) -> CompiledNodeSelectorTerm:
    errors: list[str] = []
    labels: list[Requirement] = []
    fields: list[FieldRequirement] = []
    for expression in source.match_expressions:
        try:
            labels.append(requirement(expression.key, expression.operator, expression.values))
        except SelectorError as error:
            errors.append(str(error))
    for expression in source.match_fields:
        if expression.operator not in (SelectorOperator.IN, SelectorOperator.NOT_IN):
            errors.append(f"field {_quote(expression.key)}: operator {_quote(expression.operator)} is not In or NotIn")
        elif len(expression.values) != 1:
            errors.append(f"field {_quote(expression.key)}: {expression.operator} must have one element")
        else:
            negated = expression.operator == SelectorOperator.NOT_IN
            fields.append(FieldRequirement(expression.key, expression.values[0], negated))
    return CompiledNodeSelectorTerm(Selector(frozenset(labels)), tuple(fields), "; ".join(errors) if errors else None)


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    valid = len(name) <= 63 and _NAME.fullmatch(name) is not None
    if slash:
        valid = valid and len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix) is not None
    if not valid:
        raise SelectorError(
            f"{_quote(key)} is not a label key (an optional DNS prefix and '/', then at most 63 letters, "
            "digits, '-', '_', '.')"
        )


def _parse_int64(text: str) -> int | None:
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


def _quote(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:97] + "...")
