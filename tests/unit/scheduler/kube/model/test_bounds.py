"""Every list and map of the model has a bound, and an object with more than is read of one is left out."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from scheduler.kube.model import NODES, PODS, Codec, DecodeError
from scheduler.kube.model.bounds import ROWS, Kind, bounded_paths, fields
from scheduler.state import WATCHED_KINDS

CODECS: dict[str, Codec[Any]] = {
    "Pod": PODS,
    "Node": NODES,
    **{watched.kind: watched.codec for watched in WATCHED_KINDS.values()},
}


def test_every_list_and_map_has_a_bound() -> None:
    without = [f"{model}.{field}" for model, field, bound in fields() if bound is None]
    assert not without, "give the field a max_length, or a row in scheduler/kube/model/bounds.py"


def test_every_row_is_of_a_field_that_nothing_else_bounds() -> None:
    others = {(model, field) for model, field, bound in fields() if bound is None or bound.kind is not Kind.READ_TO}
    assert set(ROWS) == others


def limits() -> Iterator[Any]:
    for kind, codec in CODECS.items():
        for path, limit in bounded_paths(codec.kind):
            yield pytest.param(codec, path, limit, id=f"{kind} {'.'.join(path)}")


def with_entries(model: Any, path: tuple[str, ...], number: int) -> Any:
    """Return JSON of a kind with so many entries at a path, and as little else as can be."""
    return {"metadata": {"name": "one", "uid": "u"}} | _filled(msgspec.inspect.type_info(model), path, number)


def _filled(kind: Any, path: tuple[str, ...], number: int) -> Any:
    inspect = msgspec.inspect
    if isinstance(kind, inspect.UnionType):
        kind = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
    if isinstance(kind, inspect.Metadata):
        return _filled(kind.type, path, number)
    if isinstance(kind, inspect.StructType):
        if not path:
            return {}
        field = next(each for each in kind.fields if each.encode_name == path[0])
        inner = _filled(field.type, path[1:], number)
        return {path[0]: {"name": "one", "uid": "u"} | inner if path[0] == "metadata" else inner}
    if isinstance(kind, inspect.DictType):
        entry = _filled(kind.value_type, path[1:], number)
        return {f"k{n}": entry for n in range(1 if path else number)}
    if isinstance(kind, inspect.CollectionType):
        entry = _filled(kind.item_type, path[1:], number)
        return [entry] * (1 if path else number)
    return "1"


@pytest.mark.parametrize(("codec", "path", "limit"), [*limits()])
def test_an_object_with_one_entry_more_than_is_read_is_left_out(
    codec: Codec[Any], path: tuple[str, ...], limit: int
) -> None:
    codec.decode(msgspec.json.encode(with_entries(codec.kind, path, limit)))
    broken = with_entries(codec.kind, path, limit + 1)
    with pytest.raises(DecodeError, match=f"of length <= {limit}"):
        codec.decode(msgspec.json.encode(broken))
    page = codec.decode_list(msgspec.json.encode({"items": [{"metadata": {"name": "other"}}, broken]}))
    assert [item.metadata.name for item in page.items] == ["other"]
    assert [each.metadata.name for each in page.invalid] == ["one"]


MANY_EXPRESSIONS = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"] * 1024}]}
MANY_TERMS = {"nodeSelectorTerms": [MANY_EXPRESSIONS]}
IN_ALL = {
    "PersistentVolume": {"spec": {"nodeAffinity": {"required": MANY_TERMS}}},
    "ResourceClaim": {"status": {"allocation": {"nodeSelector": MANY_TERMS}}},
    "ResourceSlice": {"spec": {"nodeSelector": MANY_TERMS}},
    "ResourceSlice of devices": {"spec": {"devices": [{"nodeSelector": MANY_TERMS}]}},
    "ReplicaSet": {"spec": {"selector": MANY_EXPRESSIONS}},
    "StatefulSet": {"spec": {"selector": MANY_EXPRESSIONS}},
    "PodDisruptionBudget": {"spec": {"selector": MANY_EXPRESSIONS}},
    "CSIStorageCapacity": {"nodeTopology": {"matchLabels": {f"k{n}": "v" for n in range(1025)}}},
    "SeccompProfile": {"spec": {"syscalls": [{"names": [f"n{n}" for n in range(1000)]}] * 5}},
}


@pytest.mark.parametrize("kind", IN_ALL)
def test_selectors_of_nodes_and_profiles_are_bounded_as_a_whole(kind: str) -> None:
    codec = CODECS[kind.partition(" ")[0]]
    with pytest.raises(DecodeError, match=r"at most|more than"):
        codec.decode(msgspec.json.encode({"metadata": {"name": "one"}} | IN_ALL[kind]))


def test_nothing_that_its_owner_may_write_hides_a_claim() -> None:
    # Its devices would look free.
    metadata = {
        "name": "claim",
        "labels": {f"k{n}": "v" for n in range(5000)},
        "annotations": {f"k{n}": "v" for n in range(5000)},
        "ownerReferences": [{"name": f"o{n}"} for n in range(5000)],
        "finalizers": [f"f{n}" for n in range(5000)],
    }
    assert CODECS["ResourceClaim"].decode(msgspec.json.encode({"metadata": metadata})).metadata.name == "claim"
