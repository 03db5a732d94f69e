"""Decoding what the API server sends, and what it should never send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import field

from scheduler.kube.model import (
    NODES,
    PODS,
    Codec,
    DecodeError,
    Object,
    Pod,
    UnstructuredCodec,
    continue_token,
    decode_node,
    decode_pod,
    newer_version,
)

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u-1",
        "resourceVersion": "42",
        "labels": {"app": "web"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "o-1", "controller": True}],
        "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {}}}],
    },
    "spec": {
        "nodeName": "n1",
        "schedulerName": "secondary-scheduler",
        "priority": 7,
        "containers": [
            {
                "name": "c",
                "image": "i:1",
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
                "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"}],
            }
        ],
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}
                ]
            }
        },
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "d"}},
            {"name": "disk", "awsElasticBlockStore": {"volumeID": "v-1"}},
            {"name": "token", "projected": {"sources": []}},
        ],
        "overhead": {"cpu": "10m"},
    },
    "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
}


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def changed(**spec: object) -> dict[str, Any]:
    return {**POD, "spec": {**POD["spec"], **spec}}


def test_a_pod_keeps_what_a_scheduler_reads() -> None:
    pod = decode_pod(encoded(POD))
    assert (pod.key, pod.uid, pod.node_name) == ("shop/web-1", "u-1", "n1")
    assert pod.metadata.controller is not None
    assert pod.metadata.controller.uid == "o-1"
    (container,) = pod.spec.containers
    assert container.resources.requests == {"cpu": "100m", "memory": "1Gi"}
    assert (container.ports[0].host_ip, container.ports[0].protocol) == ("10.0.0.1", "TCP")
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert pod.spec.affinity is not None
    assert pod.spec.affinity.pod_anti_affinity is not None
    (term,) = pod.spec.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    assert (term.topology_key, term.namespace_selector is not None) == ("zone", True)
    claim, disk, token = pod.spec.volumes
    assert claim.persistent_volume_claim is not None
    assert claim.persistent_volume_claim.claim_name == "d"
    assert disk.aws_elastic_block_store is not None
    assert disk.aws_elastic_block_store.volume_id == "v-1"
    assert token.name == "token"
    assert not pod.terminal


def test_null_reads_as_absent_at_any_depth() -> None:
    nulls = changed(containers=None, tolerations=None, affinity=None, nodeSelector=None, priority=None)
    nulls["metadata"] = {**POD["metadata"], "labels": None, "creationTimestamp": None}
    pod = decode_pod(encoded(nulls))
    assert pod.spec.containers == ()
    assert pod.spec.priority is None
    assert pod.metadata.labels == {}


def test_a_node_keeps_what_a_scheduler_reads() -> None:
    node = decode_node(
        encoded(
            {
                "metadata": {"name": "n1", "labels": {"zone": "a"}},
                "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True},
                "status": {
                    "allocatable": {"cpu": "4", "pods": "110"},
                    "images": [{"names": ["i:1"], "sizeBytes": 5000000000}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
    )
    assert node.name == "n1"
    assert node.spec.taints[0].value == ""
    assert node.status.images[0].size_bytes == 5000000000


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        (changed(priority="high"), "$.spec.priority"),
        (changed(priority=2**80), "$.spec.priority"),
        (changed(priority=2**31), "$.spec.priority"),
        (changed(containers={"name": "c"}), "$.spec.containers"),
        (changed(containers=[{"resources": {"requests": {"cpu": {}}}}]), "$.spec.containers[0].resources.requests"),
        (changed(tolerations=[None]), "$.spec.tolerations[0]"),
        ({**POD, "metadata": {"labels": {"a": 1}}}, "$.metadata.labels"),
    ],
)
def test_a_malformed_object_is_refused_with_the_path_of_the_field(bad: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_pod(encoded(bad))
    assert path in str(caught.value)
    assert str(caught.value).startswith("not a Pod: ")


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b'"x"', b"\xff\xfe", b"[" * 100_000])
@pytest.mark.usefixtures("no_collection")
def test_bytes_that_are_no_object_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_pod(data)


def test_one_bad_item_does_not_spoil_the_list() -> None:
    bad = changed(priority="high")
    bad["metadata"] = {"name": "bad", "namespace": "shop", "uid": "u-2", "labels": {"a": 1}}
    page = PODS.decode_list(encoded({"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [bad, POD]}))
    assert [pod.key for pod in page.items] == ["shop/web-1"]
    (invalid,) = page.invalid
    assert (invalid.metadata.name, invalid.metadata.uid) == ("bad", "u-2")
    assert (page.resource_version, page.continue_token) == ("9", "t")


def test_a_list_without_items_is_empty() -> None:
    page = PODS.decode_list(encoded({"metadata": {"resourceVersion": "9"}, "items": None}))
    assert (page.items, page.continue_token) == ([], "")


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(DecodeError, match="not a list of Pod"):
        PODS.decode_list(b"<html>")


def test_watch_events_of_all_kinds() -> None:
    added = PODS.decode_event(encoded({"type": "ADDED", "object": POD}))
    assert added.object is not None
    assert added.object.key == "shop/web-1"
    bookmark = PODS.decode_event(
        encoded(
            {
                "type": "BOOKMARK",
                "object": {"kind": "Pod", "metadata": {"resourceVersion": "50"}, "spec": {"containers": None}},
            }
        )
    )
    assert bookmark.object is not None
    assert bookmark.object.metadata.resource_version == "50"
    status = {
        "kind": "Status",
        "status": "Failure",
        "code": 410,
        "reason": "Expired",
        "message": "too old",
        "metadata": {},
    }
    for codec in (PODS, NODES):
        failure = codec.decode_event(encoded({"type": "ERROR", "object": status}))
        assert failure.object is None
        assert failure.status is not None
        assert (failure.status.code, failure.status.reason) == (410, "Expired")
    broken = PODS.decode_event(encoded({"type": "MODIFIED", "object": changed(priority="high")}))
    assert broken.invalid is not None
    assert broken.invalid.metadata.uid == "u-1"


def test_a_cut_line_is_no_event() -> None:
    with pytest.raises(DecodeError, match="not a watch event"):
        PODS.decode_event(encoded({"type": "ADDED", "object": POD})[:-20])


def test_kinds_that_are_not_modelled_keep_their_whole_content() -> None:
    codec = UnstructuredCodec()
    custom_object = {
        "kind": "Thing",
        "metadata": {"name": "t", "uid": "u", "labels": None},
        "spec": {"a": None, "b": [1]},
    }
    assert codec.decode(encoded(custom_object)).content == custom_object
    assert codec.decode(encoded(custom_object)).metadata.name == "t"
    assert (
        codec.decode_list(encoded({"metadata": {}, "items": [custom_object, {"metadata": 5}]})).invalid[0].metadata.name
        == ""
    )
    event = codec.decode_event(encoded({"type": "DELETED", "object": custom_object}))
    assert event.object is not None
    assert event.object.content["spec"] == {"a": None, "b": [1]}


def test_a_custom_kind_needs_only_its_fields() -> None:
    class Group(Object, frozen=True, gc=False, rename="camel"):
        spec: dict[str, int] = field(default_factory=dict)

    group = Codec(Group).decode(encoded({"metadata": {"name": "g"}, "spec": {"minMember": 3}}))
    assert (group.metadata.name, group.spec["minMember"]) == ("g", 3)


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
json_values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from(["key", "name"]), scalars)
fields = st.dictionaries(
    st.sampled_from(["containers", "priority", "affinity", "tolerations", "nodeSelector", "volumes", "overhead"]),
    json_values,
)


@given(spec=fields, meta=st.dictionaries(st.sampled_from(["name", "labels", "uid", "ownerReferences"]), json_values))
def test_the_decoder_only_raises_its_own_error(spec: dict[str, Any], meta: dict[str, Any]) -> None:
    page = PODS.decode_list(encoded({"metadata": {}, "items": [{"metadata": meta, "spec": spec}, POD]}))
    assert len(page.items) + len(page.invalid) == 2
    assert isinstance(page.items[-1], Pod)
    assert page.items[-1].key == "shop/web-1"


@pytest.mark.parametrize(
    ("candidate", "current", "expected"),
    [("10", "9", True), ("9", "10", False), ("9", "9", False), ("abc", "9", None), ("", "9", None), ("9", "", None)],
)
def test_versions_are_compared_as_numbers_where_they_are_numbers(
    candidate: str, current: str, expected: bool | None
) -> None:
    assert newer_version(candidate, current) is expected


@pytest.mark.parametrize(
    ("page", "token"),
    [
        (b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"a-_1"},"items":[', "a-_1"),
        (b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}', ""),
        (b'{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"\\u0061{"},"items":[]}', "a{"),
        (b'{"apiVersion":"x/v1","items":[{"metadata":{"continue":"no"}}],"metadata":{"continue":"b"}}', "b"),
        (b'{"kind": "PodList", "metadata": {"continue": "c"}, "items": []}', "c"),
        (b'{"kind":"PodList","apiVersion":"v1","metadata":{"continue":7},"items":[]}', ""),
        (b'{"kind":"PodList"', ""),
        (b"", ""),
    ],
)
def test_the_token_of_the_next_page_is_found_wherever_it_stands(page: bytes, token: str) -> None:
    assert continue_token(page) == token
