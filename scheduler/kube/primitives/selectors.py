"""Label and node selectors, compiled once and matched often.

Semantics of k8s.io/apimachinery/pkg/labels and k8s.io/component-helpers/scheduling/corev1/nodeaffinity (v0.34): an
invalid requirement makes a label selector an error and a node selector *term* one that never matches.
Whoever writes a selector may list tens of thousands of requirements in it: compiling costs these, once; a match costs
the labels of the object. Compiled selectors are immutable, hashable and equal when they require the same of each key,
so that they may be keys.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

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
_NAME_FIELD: Final = "metadata.name"


@dataclass(frozen=True, slots=True)
class OpenValues:
    """Every value of a label but some; where it has bounds, of the integers only those between them (Gt, Lt)."""

    excluded: frozenset[str] = frozenset()
    above: int | None = None
    below: int | None = None

    def __contains__(self, value: str) -> bool:
        if value in self.excluded:
            return False
        if self.above is None and self.below is None:
            return True
        number = _parse_int64(value)
        if number is None:
            return False
        return (self.above is None or number > self.above) and (self.below is None or number < self.below)


Values = frozenset[str] | OpenValues
ANY_VALUE: Final = OpenValues()
_NO_KEYS: Final[Mapping[str, Values]] = {}


class Selector:
    """What the labels of an object must be. Compiled: one entry per key, so that a match costs the keys that the object
    has, and not those that the selector has.

    Attributes:
        required: the keys that an object must have, each with one of these values.
        refused: the values that a key must not have, where the object has it.
        nothing: it selects no object: an absent (nil) LabelSelector, or requirements that contradict each other.
    """

    __slots__ = ("_hash", "nothing", "refused", "required")

    def __init__(
        self, required: Mapping[str, Values] = _NO_KEYS, refused: Mapping[str, Values] = _NO_KEYS, nothing: bool = False
    ) -> None:
        """Take what is compiled: no key is in both mappings, and no set of values is empty."""
        self.required = required
        self.refused = refused
        self.nothing = nothing
        # Selectors are keys of caches: it is computed once.
        self._hash = hash((frozenset(required.items()), frozenset(refused.items()), nothing))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Selector) or self._hash != other._hash or self.nothing is not other.nothing:
            return False
        return self.required == other.required and self.refused == other.refused

    def __repr__(self) -> str:
        return f"Selector(required={self.required!r}, refused={self.refused!r}, nothing={self.nothing!r})"

    @property
    def everything(self) -> bool:
        """True for the empty selector, which selects every object."""
        return not (self.required or self.refused or self.nothing)

    @property
    def size(self) -> int:
        """How many keys it speaks of."""
        return len(self.required) + len(self.refused)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Say whether an object with these labels is selected."""
        # Ends at the first key that the object does not have: after as many steps as it has labels, and one.
        for key, values in self.required.items():
            value = labels.get(key)
            if value is None or value not in values:
                return False
        refused = self.refused
        if not refused:
            return not self.nothing
        if len(refused) <= len(labels):
            return not any((held := labels.get(key)) is not None and held in refused[key] for key in refused)
        return not any((others := refused.get(key)) is not None and labels[key] in others for key in labels)

    def __and__(self, other: Selector) -> Selector:
        """Return the selector of the objects that both select."""
        return conjunction((self, other))


NOTHING: Final = Selector(nothing=True)
EVERYTHING: Final = Selector()


def conjunction(selectors: Iterable[Selector]) -> Selector:
    """Return the selector of the objects that all of them select; of everything where there are none."""
    parts = sorted(
        (selector for selector in selectors if not selector.everything),
        key=lambda selector: selector.size,
        reverse=True,
    )
    if len(parts) < 2:
        return parts[0] if parts else EVERYTHING
    if any(selector.nothing for selector in parts):
        return NOTHING
    # The largest is copied as it is, and only the keys of the others are looked at.
    required, refused = dict(parts[0].required), dict(parts[0].refused)
    for part in parts[1:]:
        for key, values in part.required.items():
            before = required.get(key)
            required[key] = values if before is None else _both(before, values)
        for key, values in part.refused.items():
            before = refused.get(key)
            refused[key] = values if before is None else _either(before, values)
    touched = {key for part in parts[1:] for key in (*part.required, *part.refused)}
    return _settled(required, refused, touched)


def _settled(required: dict[str, Values], refused: dict[str, Values], touched: Iterable[str]) -> Selector:
    """Return the selector in which no key is both required and refused, and no required one lacks values."""
    for key in touched:
        if key not in required:
            continue
        values = required[key]
        if key in refused:
            values = required[key] = _without(values, refused.pop(key))
        if not values:
            return NOTHING
    return Selector(required, refused)


def _both(first: Values, second: Values) -> Values:
    if isinstance(first, OpenValues) and isinstance(second, OpenValues):
        above = [bound for bound in (first.above, second.above) if bound is not None]
        below = [bound for bound in (first.below, second.below) if bound is not None]
        return OpenValues(first.excluded | second.excluded, max(above, default=None), min(below, default=None))
    if isinstance(first, OpenValues):
        first, second = second, first
    assert isinstance(first, frozenset)
    return first & second if isinstance(second, frozenset) else frozenset(value for value in first if value in second)


def _either(first: Values, second: Values) -> Values:
    if isinstance(first, OpenValues) or isinstance(second, OpenValues):
        # Refused are some values, or all of them.
        return ANY_VALUE
    return first | second


def _without(values: Values, refused: Values) -> Values:
    if isinstance(refused, OpenValues):
        return frozenset()
    if isinstance(values, OpenValues):
        return OpenValues(values.excluded | refused, values.above, values.below)
    return values - refused


class _Requirement(NamedTuple):
    """One condition on labels that is valid; the right-hand side of Gt and Lt is `bound`."""

    key: str
    operator: SelectorOperator
    values: Sequence[str]
    bound: int


_OPERATORS: Final[Mapping[str, SelectorOperator]] = {operator.value: operator for operator in SelectorOperator}
_WITH_VALUES: Final = frozenset({SelectorOperator.IN, SelectorOperator.NOT_IN})
_WITHOUT_VALUES: Final = frozenset({SelectorOperator.EXISTS, SelectorOperator.DOES_NOT_EXIST})
_ORDERED: Final[frozenset[str]] = frozenset({SelectorOperator.GT, SelectorOperator.LT})


def _requirement(key: str, operator: str, values: Sequence[str]) -> _Requirement:
    """Validate one requirement (labels.NewRequirement); raise SelectorError."""
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
    return _Requirement(key, op, values, bound)


def _compiled(requirements: Iterable[_Requirement]) -> Selector:
    required: dict[str, Values] = {}
    # Sets that grow: a list of thousands of NotIn of one key would be copied thousands of times.
    excluded: dict[str, set[str]] = {}
    refused: dict[str, Values] = {}
    for key, operator, values, bound in requirements:
        match operator:
            case SelectorOperator.NOT_IN:
                excluded.setdefault(key, set()).update(values)
                continue
            case SelectorOperator.DOES_NOT_EXIST:
                refused[key] = ANY_VALUE
                continue
            case SelectorOperator.IN:
                accepted: Values = frozenset(values)
            case SelectorOperator.EXISTS:
                accepted = ANY_VALUE
            case SelectorOperator.GT:
                accepted = OpenValues(above=bound)
            case _:
                accepted = OpenValues(below=bound)
        previous = required.get(key)
        required[key] = accepted if previous is None else _both(previous, accepted)
    for key, excluded_values in excluded.items():
        refused.setdefault(key, frozenset(excluded_values))
    return _settled(required, refused, tuple(required))


def label_selector(source: LabelSelectorLike | None) -> Selector:
    """Compile a metav1.LabelSelector (LabelSelectorAsSelector): None selects nothing, empty selects everything.

    Raises:
        SelectorError: Kubernetes would refuse it.
    """
    if source is None:
        return NOTHING
    parts = [_requirement(key, SelectorOperator.IN, (value,)) for key, value in source.match_labels.items()]
    for expression in source.match_expressions:
        if expression.operator in _ORDERED:
            raise SelectorError(f"{_quote(expression.operator)} is not a valid label selector operator")
        parts.append(_requirement(expression.key, expression.operator, expression.values))
    return _compiled(parts)


def selector_from_set(labels: Mapping[str, str]) -> Selector:
    """Compile a plain map such as spec.nodeSelector (labels.SelectorFromSet): not validated; empty is everything."""
    return Selector({key: frozenset((value,)) for key, value in labels.items()}) if labels else EVERYTHING


@dataclass(frozen=True, slots=True)
class CompiledNodeSelectorTerm:
    """One compiled, non-empty term: labels AND fields.

    Attributes:
        labels: what the node's labels must be.
        names: the only nodes that can match, by `metadata.name In [x]`; None where the term names none.
        other_names: nodes that do not match, by `metadata.name NotIn [x]`.
        no_node: no node with a name matches: a field other than the name, which no node has, must have a value.
        error: set when the term is invalid; then it never matches.
    """

    labels: Selector
    names: frozenset[str] | None = None
    other_names: frozenset[str] = frozenset()
    no_node: bool = False
    error: str | None = None

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Say whether the node satisfies the term; fields are not looked at for a node without a name."""
        if self.error is not None or not self.labels.matches(labels):
            return False
        if not node_name:
            return True
        named = self.names is None or node_name in self.names
        return named and node_name not in self.other_names and not self.no_node


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
    requirements: list[_Requirement] = []
    for expression in source.match_expressions:
        try:
            requirements.append(_requirement(expression.key, expression.operator, expression.values))
        except SelectorError as error:
            errors.append(str(error))
    names: frozenset[str] | None = None
    other_names: set[str] = set()
    no_node = False
    for expression in source.match_fields:
        if expression.operator not in _WITH_VALUES:
            errors.append(f"field {_quote(expression.key)}: operator {_quote(expression.operator)} is not In or NotIn")
        elif len(expression.values) != 1:
            errors.append(f"field {_quote(expression.key)}: {expression.operator} must have one element")
        elif expression.key != _NAME_FIELD:
            # Only the name ever has a value.
            no_node |= (expression.values[0] == "") is (expression.operator == SelectorOperator.NOT_IN)
        elif expression.operator == SelectorOperator.NOT_IN:
            other_names.add(expression.values[0])
        else:
            named = frozenset(expression.values)
            names = named if names is None else names & named
    error_text = "; ".join(errors) if errors else None
    return CompiledNodeSelectorTerm(_compiled(requirements), names, frozenset(other_names), no_node, error_text)


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
