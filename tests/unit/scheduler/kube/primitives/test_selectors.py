"""Label and node selectors: upstream's verdicts, upstream's refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given, strategies as st

from scheduler.kube.model import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    compiled_selector,
)
from scheduler.kube.primitives import selectors
from scheduler.kube.primitives.selectors import (
    Selector,
    SelectorError,
    conjunction,
    label_selector,
    node_selector,
    selector_from_set,
)

LABELS = {"zone": "a", "size": "12", "empty": "", "word": "x1"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("absent", "In", ["a"], False),
        ("empty", "In", [""], True),
        ("zone", "NotIn", ["a"], False),
        ("zone", "NotIn", ["b"], True),
        ("absent", "NotIn", ["a"], True),
        ("empty", "Exists", [], True),
        ("absent", "Exists", [], False),
        ("zone", "DoesNotExist", [], False),
        ("absent", "DoesNotExist", [], True),
        ("size", "Gt", ["11"], True),
        ("size", "Gt", ["12"], False),
        ("size", "Lt", ["13"], True),
        ("size", "Lt", ["12"], False),
        ("word", "Gt", ["1"], False),
        ("word", "Lt", ["1"], False),
        ("absent", "Lt", ["1"], False),
    ],
)
def test_operators(key: str, operator: str, values: list[str], expected: bool) -> None:
    (term,) = node_selector([NodeSelectorTerm((expression(key, operator, *values),))]).terms
    assert term.labels.matches(LABELS) is expected


@pytest.mark.parametrize(
    ("key", "operator", "values", "reason"),
    [
        ("zone", "in", ["a"], "operator 'in' is not one of"),
        ("zone", "In", [], "needs at least one value"),
        ("zone", "Exists", ["a"], "takes no values"),
        ("zone", "Gt", ["a1"], "exactly one integer"),
        ("zone", "Gt", ["1", "2"], "exactly one integer"),
        ("zone", "Lt", ["9223372036854775808"], "exactly one integer"),
        ("zone", "Gt", ["-5"], "is not a label value"),
        ("zone", "In", ["a b"], "is not a label value"),
        ("zone", "In", ["x" * 64], "is not a label value"),
        ("", "Exists", [], "is not a label key"),
        ("a/b/c", "Exists", [], "is not a label key"),
        ("UPPER.com/x", "Exists", [], "is not a label key"),
        ("x" * 64, "Exists", [], "is not a label key"),
    ],
)
def test_requirements_that_kubernetes_refuses(key: str, operator: str, values: list[str], reason: str) -> None:
    (term,) = node_selector([NodeSelectorTerm((expression(key, operator, *values),))]).terms
    assert re.search(reason, term.error or "")
    assert not term.matches("n", LABELS)


def test_an_absent_label_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert label_selector(None) is selectors.NOTHING
    assert not label_selector(None).matches({})
    assert label_selector(LabelSelector()).everything
    assert label_selector(LabelSelector()).matches({})


def test_a_label_selector_needs_all_its_parts() -> None:
    selector = label_selector(
        LabelSelector(
            match_labels={"zone": "a"},
            match_expressions=(LabelSelectorRequirement(key="size", operator="NotIn", values=("13",)),),
        )
    )
    assert selector.matches(LABELS)
    assert not selector.matches({**LABELS, "size": "13"})
    assert not selector.matches({**LABELS, "zone": "b"})


def test_gt_is_no_operator_of_a_label_selector() -> None:
    with pytest.raises(SelectorError, match="not a valid label selector operator"):
        label_selector(LabelSelector(match_expressions=(LabelSelectorRequirement("a", "Gt", ("1",)),)))


def test_equal_selectors_in_another_order_are_the_same_key() -> None:
    first = LabelSelectorRequirement("a", "In", ("x", "y"))
    second = LabelSelectorRequirement("b", "Exists")
    other = LabelSelectorRequirement("a", "In", ("y", "x"))
    assert label_selector(LabelSelector(match_expressions=(first, second))) == label_selector(
        LabelSelector(match_expressions=(second, other))
    )
    assert len({label_selector(LabelSelector({"a": "b"})), label_selector(LabelSelector({"a": "b"}))}) == 1


def test_match_label_keys_narrow_a_selector_but_never_make_nothing_match() -> None:
    narrowed = label_selector(LabelSelector()) & selector_from_set({"zone": "a"})
    assert narrowed.matches(LABELS)
    assert not narrowed.matches({"zone": "b"})
    assert not (selectors.NOTHING & selector_from_set({"zone": "a"})).matches(LABELS)


def test_a_node_selector_map_is_not_validated() -> None:
    assert selectors.selector_from_set({"not a key": "not a value"}).matches({"not a key": "not a value"})
    assert selectors.selector_from_set({}).everything


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key, operator, values)


def test_terms_are_alternatives_and_their_parts_are_not() -> None:
    selector = node_selector(
        [
            NodeSelectorTerm(match_expressions=(expression("zone", "In", "b"),)),
            NodeSelectorTerm(
                match_expressions=(expression("zone", "In", "a"),),
                match_fields=(expression("metadata.name", "In", "n1"),),
            ),
        ]
    )
    assert selector.matches("n1", LABELS)
    assert not selector.matches("n2", LABELS)
    assert selector.matches("n2", {"zone": "b"})


def test_no_terms_and_empty_terms_match_no_node() -> None:
    assert not node_selector([]).matches("n", LABELS)
    assert not node_selector([NodeSelectorTerm()]).matches("n", LABELS)


def test_an_invalid_term_never_matches_but_leaves_the_others_alone() -> None:
    bad = NodeSelectorTerm(match_expressions=(expression("zone", "Near", "a"),))
    good = NodeSelectorTerm(match_expressions=(expression("zone", "Exists"),))
    assert not node_selector([bad]).matches("n", LABELS)
    assert node_selector([bad, good]).matches("n", LABELS)
    assert "operator 'Near'" in node_selector([bad]).errors[0]


@pytest.mark.parametrize(
    ("fields", "name", "expected"),
    [
        ((expression("metadata.name", "In", "n1"),), "n1", True),
        ((expression("metadata.name", "In", "n1"),), "n2", False),
        ((expression("metadata.name", "NotIn", "n1"),), "n2", True),
        ((expression("metadata.name", "NotIn", "n1"),), "n1", False),
        ((expression("metadata.uid", "In", "n1"),), "n1", False),
        ((expression("metadata.uid", "NotIn", "x"),), "n1", True),
        ((expression("metadata.name", "Exists"),), "n1", False),
        ((expression("metadata.name", "In", "n1", "n2"),), "n1", False),
    ],
)
def test_match_fields_know_only_the_name_and_one_value(
    fields: tuple[NodeSelectorRequirement, ...], name: str, expected: bool
) -> None:
    assert node_selector([NodeSelectorTerm(match_fields=fields)]).matches(name, {}) is expected


def test_the_nodes_a_term_names_are_known_before_looking_at_any() -> None:
    (term,) = node_selector([NodeSelectorTerm(match_fields=(expression("metadata.name", "In", "n1"),))]).terms
    assert term.names == {"n1"}
    (two,) = node_selector(
        [
            NodeSelectorTerm(
                match_fields=(expression("metadata.name", "In", "n1"), expression("metadata.name", "In", "n2"))
            )
        ]
    ).terms
    assert two.names == frozenset()
    (three,) = node_selector([NodeSelectorTerm(match_expressions=(expression("zone", "Exists"),))]).terms
    assert three.names is None


def test_preferred_terms_of_no_weight_or_content_are_left_out_and_a_bad_one_is_an_error() -> None:
    good = NodeSelectorTerm(match_expressions=(expression("zone", "Exists"),))
    bad = NodeSelectorTerm(match_expressions=(expression("zone", "Near"),))
    terms = selectors.preferred_terms(
        [
            PreferredSchedulingTerm(5, good),
            PreferredSchedulingTerm(0, bad),
            PreferredSchedulingTerm(7, NodeSelectorTerm()),
        ]
    )
    assert [(term.weight, term.term.matches("n", LABELS)) for term in terms] == [(5, True)]
    with pytest.raises(SelectorError, match="Near"):
        selectors.preferred_terms([PreferredSchedulingTerm(1, bad)])


KEYS, VALUES = ("a", "b", "c", "d"), ("", "1", "7", "12", "x")


def requirements(ordered: bool) -> st.SearchStrategy[NodeSelectorRequirement]:
    values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)
    kinds = [
        st.tuples(st.sampled_from(["In", "NotIn"]), values),
        st.tuples(st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
    ]
    if ordered:
        bounds = st.sampled_from(["0", "7", "11"]).map(lambda bound: [bound])
        kinds.append(st.tuples(st.sampled_from(["Gt", "Lt"]), bounds))
    return st.builds(lambda key, kind: expression(key, kind[0], *kind[1]), st.sampled_from(KEYS), st.one_of(kinds))


def holds(each: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """One requirement, as labels.Requirement.Matches decides it: the plain form of what is compiled."""
    value = labels.get(each.key)
    match each.operator:
        case "In":
            return value is not None and value in each.values
        case "NotIn":
            return value is None or value not in each.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None or not value.isdigit():
        return False
    return int(value) > int(each.values[0]) if each.operator == "Gt" else int(value) < int(each.values[0])


labels_of_objects = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@given(st.lists(requirements(ordered=True), max_size=8), labels_of_objects)
@example([expression("a", "DoesNotExist"), expression("b", "DoesNotExist")], {})
@example([expression("a", "In", "1"), expression("a", "NotIn", "1")], {"a": "1"})
@example([expression("a", "Gt", "0"), expression("a", "NotIn", "7"), expression("a", "Lt", "12")], {"a": "7"})
def test_what_is_compiled_selects_as_each_requirement_does(
    parts: Sequence[NodeSelectorRequirement], labels: Mapping[str, str]
) -> None:
    term = NodeSelectorTerm(match_expressions=(*parts, expression("d", "NotIn", "other")))
    assert node_selector([term]).matches("n", labels) is all(holds(each, labels) for each in parts)


@given(st.lists(st.lists(requirements(ordered=False), max_size=4), max_size=3), labels_of_objects)
def test_a_conjunction_selects_what_all_of_them_select_in_any_order(
    parts: list[list[NodeSelectorRequirement]], labels: Mapping[str, str]
) -> None:
    compiled = [label_selector(selecting(*each)) for each in parts]
    together = conjunction(compiled)
    assert together.matches(labels) is all(each.matches(labels) for each in compiled)
    assert conjunction(reversed(compiled)) == together
    assert together == label_selector(selecting(*(each for part in parts for each in part)))


def selecting(*parts: NodeSelectorRequirement) -> LabelSelector:
    return LabelSelector(
        match_expressions=tuple(LabelSelectorRequirement(each.key, each.operator, each.values) for each in parts)
    )


@given(st.lists(requirements(ordered=True), max_size=4), labels_of_objects)
def test_a_term_with_an_invalid_requirement_matches_no_node(
    parts: list[NodeSelectorRequirement], labels: Mapping[str, str]
) -> None:
    for invalid in (expression("a", "Near"), expression("a", "In"), expression("a", "Gt", "x")):
        assert not node_selector([NodeSelectorTerm(match_expressions=(*parts, invalid))]).matches("n", labels)


class CountedLabels(dict[str, str]):
    """Labels that count how often one is asked for."""

    questions = 0

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.questions += 1
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.questions += 1
        return super().__getitem__(key)


@pytest.mark.parametrize(
    ("operator", "values", "selected"),
    [("DoesNotExist", (), True), ("NotIn", ("x",), True), ("Exists", (), False), ("In", ("x",), False)],
)
def test_a_match_costs_the_labels_of_the_object_and_not_the_selectors_length(
    operator: str, values: tuple[str, ...], selected: bool
) -> None:
    keys = [f"k{number}" for number in range(30_000)]
    selector = label_selector(selecting(*(expression(key, operator, *values) for key in keys)))
    labels = CountedLabels({"app": "web", "zone": "a"})
    assert selector.matches(labels) is selected
    assert labels.questions <= 3


def test_thousands_of_requirements_on_one_key_are_one_rule() -> None:
    selector = label_selector(selecting(*(expression("a", "NotIn", f"v{number}") for number in range(15_000))))
    assert selector.size == 1
    assert not selector.matches({"a": "v7"})
    assert selector.matches({"a": "v"})


def test_a_selector_is_compiled_once_per_object() -> None:
    source = LabelSelector({"a": "b"})
    assert compiled_selector(source) is compiled_selector(source)
    refused = LabelSelector({"a b": ""})
    for _ in range(2):
        with pytest.raises(SelectorError, match="is not a label key"):
            compiled_selector(refused)


def test_requirements_that_contradict_each_other_select_nothing() -> None:
    assert label_selector(selecting(expression("a", "Exists"), expression("a", "DoesNotExist"))) == selectors.NOTHING
    assert Selector({"a": frozenset({"x"})}) & Selector({}, {"a": frozenset({"x"})}) == selectors.NOTHING
