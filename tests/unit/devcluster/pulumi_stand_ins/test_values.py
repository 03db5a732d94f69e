from __future__ import annotations

from google.protobuf import struct_pb2
from hypothesis import HealthCheck, given, settings, strategies as st

from devcluster.pulumi_stand_ins.kubernetes_provider import values
from devcluster.pulumi_stand_ins.kubernetes_provider.servicer import decode, encode
from devcluster.pulumi_stand_ins.kubernetes_provider.values import UNKNOWN, secret
from tests.support.selection import tries

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
objects = st.dictionaries(st.text(), plain)


@settings(max_examples=tries(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(objects)
def test_json_survives_the_way_to_the_engine_and_back(obj: values.Object) -> None:
    sent = struct_pb2.Struct.FromString(encode(obj).SerializeToString())
    assert decode(sent) == obj


def test_whole_numbers_come_back_as_integers_and_booleans_stay_booleans() -> None:
    back = decode(encode({"replicas": 3, "ratio": 0.5, "on": True, "nested": [{"port": 8080.0}], "none": None}))
    assert back == {"replicas": 3, "ratio": 0.5, "on": True, "nested": [{"port": 8080}], "none": None}
    assert isinstance(back["replicas"], int)
    assert back["on"] is True
    assert isinstance(back["nested"][0]["port"], int)


def test_an_empty_list_stays_a_list() -> None:
    assert decode(encode({"rules": []})) == {"rules": []}


def test_revealing_removes_marks_at_every_depth() -> None:
    marked = {"a": secret({"b": [secret(1)]}), "c": [secret("x"), "y"]}
    assert values.reveal(marked) == {"a": {"b": [1]}, "c": ["x", "y"]}


def test_marking_twice_changes_nothing() -> None:
    assert secret(secret("x")) == secret("x")


def test_secret_marks_are_copied_to_the_same_places_and_nowhere_else() -> None:
    live = {"data": {"token": "t", "plain": "p"}, "status": {"x": 1}}
    marked = {"data": {"token": secret("t"), "plain": "p"}}
    assert values.with_secrets_of(live, marked) == {"data": {"token": secret("t"), "plain": "p"}, "status": {"x": 1}}


def test_a_list_with_a_secret_item_is_secret_as_a_whole() -> None:
    assert values.with_secrets_of(["b", "a"], ["a", secret("b")]) == secret(["b", "a"])


def test_a_secret_parent_hides_all_below_even_marks_that_were_there() -> None:
    assert values.with_secrets_of({"a": {"b": secret(1)}}, {"a": secret({})}) == {"a": secret({"b": 1})}


def test_unknowns_are_found_inside_secrets() -> None:
    assert values.contains_unknown({"a": [secret({"b": UNKNOWN})]})
    assert not values.contains_unknown({"a": "known"})


def test_pruning_keeps_what_the_shape_mentions_and_cuts_lists_to_its_length() -> None:
    live = {
        "spec": {"image": "i", "defaulted": 1, "list": [{"name": "a", "added": 1}, {"name": "injected"}]},
        "status": {},
    }
    shape = {"spec": {"image": "old", "gone": 1, "list": [{"name": "x"}]}}
    assert values.prune(live, shape) == {"spec": {"image": "i", "list": [{"name": "a"}]}}


def test_null_members_are_dropped_but_null_list_items_are_not() -> None:
    assert values.without_nulls({"a": None, "b": {"c": None}, "d": [None, 1]}) == {"b": {}, "d": [None, 1]}
