"""Label and node selectors: upstream's verdicts, upstream's refusals."""

from __future__ import annotations

import pytest

from scheduler.kube.model import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from scheduler.kube.primitives import selectors
from scheduler.kube.primitives.selectors import SelectorError, label_selector, node_selector, requirement

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
    assert requirement(key, operator, values).matches(LABELS) is expected


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
    with pytest.raises(SelectorError, match=reason):
        requirement(key, operator, values)


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
    assert selector.keys == {"zone", "size"}


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
    narrowed = label_selector(LabelSelector()).with_values({"zone": "a"})
    assert narrowed.matches(LABELS)
    assert not narrowed.matches({"zone": "b"})
    assert not selectors.NOTHING.with_values({"zone": "a"}).matches(LABELS)


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
    assert term.node_names() == {"n1"}
    (two,) = node_selector(
        [
            NodeSelectorTerm(
                match_fields=(expression("metadata.name", "In", "n1"), expression("metadata.name", "In", "n2"))
            )
        ]
    ).terms
    assert two.node_names() == frozenset()
    (three,) = node_selector([NodeSelectorTerm(match_expressions=(expression("zone", "Exists"),))]).terms
    assert three.node_names() is None


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
