"""The caches take news from watches and from answers to our own writes, which come in any order."""

import pytest

from scheduler.kube.client import ClientConfig, Forbidden, KubeClient
from scheduler.kube.model import EventType, ObjectMeta, Unstructured, UnstructuredCodec
from secondary_scheduler.operator.caches import TIMING, Caches, KindCache
from secondary_scheduler.operator.reconcile.names import RESOURCES


def obj(version, uid="u1", name="a", **content):
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": version, "managedFields": [{}]}
    meta = ObjectMeta(name=name, namespace="ns", uid=uid, resource_version=version)
    return Unstructured(meta, {"metadata": metadata, **content})


@pytest.fixture
def client():
    return KubeClient(ClientConfig(server="https://127.0.0.1:1"))


@pytest.fixture
def seen():
    return []


@pytest.fixture
def cache(client, seen):
    def on_change(kind, before, after):
        seen.append((kind, before and before.metadata.resource_version, after and after.metadata.resource_version))

    return KindCache(client, "ConfigMap", "ns", on_change, TIMING)


def versions(cache):
    return [obj.metadata.resource_version for obj in cache.store]


def test_an_answer_is_known_at_once_and_its_echo_is_no_news(cache, seen):
    cache.record_answer(obj("5"))
    assert versions(cache) == ["5"]
    cache.apply([(EventType.ADDED, obj("5"))])
    assert seen == []


def test_a_watch_that_lags_does_not_undo_an_answer(cache, seen):
    cache.record_answer(obj("5"))
    cache.apply([(EventType.MODIFIED, obj("4"))])
    assert versions(cache) == ["5"]
    assert seen == []


@pytest.mark.parametrize("known_before", [True, False])
def test_an_answer_does_not_bring_back_what_was_deleted_meanwhile(cache, known_before):
    if known_before:
        cache.apply([(EventType.ADDED, obj("4"))])
    cache.apply([(EventType.DELETED, obj("6"))])
    answer = cache.record_answer(obj("5", data={"a": "b"}))
    assert answer["data"] == {"a": "b"}
    assert versions(cache) == []


def test_an_answer_does_not_bring_back_what_a_new_list_lacks(cache):
    cache.apply([(EventType.ADDED, obj("4"))])
    cache.replace([], "9")
    cache.record_answer(obj("5"))
    assert versions(cache) == []


def test_a_deletion_that_was_undone_keeps_no_answer_from_being_learned(cache):
    """The cluster went back to an older state, in which the object is still there."""
    cache.apply([(EventType.ADDED, obj("4"))])
    cache.apply([(EventType.DELETED, obj("6"))])
    cache.replace([obj("4")], "5")
    cache.record_answer(obj("7", data={"a": "b"}))
    assert versions(cache) == ["7"]


def test_a_namesake_made_after_a_deletion_is_learned(cache):
    cache.apply([(EventType.DELETED, obj("6"))])
    cache.record_answer(obj("7", uid="u2"))
    assert versions(cache) == ["7"]


def test_changes_are_reported_with_before_and_after(cache, seen):
    cache.replace([obj("1")], "1")
    cache.apply([(EventType.MODIFIED, obj("2"))])
    cache.apply([(EventType.DELETED, obj("3"))])
    assert seen == [("ConfigMap", None, "1"), ("ConfigMap", "1", "2"), ("ConfigMap", "2", None)]


def test_objects_carry_their_kind_and_no_bookkeeping(cache):
    known = cache.record_answer(obj("1"))
    assert (known["apiVersion"], known["kind"]) == ("v1", "ConfigMap")
    assert "managedFields" not in known["metadata"]


def test_only_the_named_secrets_are_asked_for(client):
    caches = Caches(client, ["ns"], lambda *_: None, secrets=["cert"])
    assert not caches.state("Secret", "ns", "cert").synced
    with pytest.raises(KeyError):
        caches.state("Secret", "ns")


def test_a_refused_kind_is_unreadable_until_its_watch_works_again(client):
    caches = Caches(client, ["ns", "other"], lambda *_: None, secrets=["cert", "token"])
    assert not caches.started()
    forbidden = Forbidden("GET x: 403", status=403, reason="Forbidden", message="secrets is forbidden")
    for kind, resource in RESOURCES.items():
        for namespace in ("ns", "other") if resource.namespaced or kind == "Namespace" else ("",):
            only = {"Secret": ("cert", "token"), "Namespace": (namespace,)}
            for name in only.get(kind, ("",)):
                caches.state(kind, namespace, name).error = forbidden
    assert caches.started()
    caches.state("Secret", "ns", "cert").synced = True
    caches.state("Pod", "ns").synced = True
    caches.state("Pod", "ns").error = None
    assert caches.unreadable("ns")["Secret"].message == "secrets is forbidden"
    assert "Pod" not in caches.unreadable("ns")
    assert "Pod" in caches.unreadable("other")
    assert "ClusterRoleBinding" in caches.unreadable("other")


def lists_and_watches(client, monkeypatch):
    """Takes the place of Reflector, and notes what each would list."""
    noted = []

    def note(used, path, codec, sink, reduce, **options):
        assert used is client
        if isinstance(codec, UnstructuredCodec):
            assert reduce(obj("1", spec={}, status={})).content["kind"] == sink._kind
            assert options["optional"] == RESOURCES[sink._kind].optional
        assert isinstance(options["label_selector"], str)
        noted.append((path, options["field_selector"], type(codec).__name__))

    monkeypatch.setattr("secondary_scheduler.operator.caches.Reflector", note)
    return noted


def test_secrets_are_watched_by_name_in_their_namespace_and_not_decoded(client, monkeypatch):
    """Without the selector the request would be for all Secrets; RBAC refuses that."""
    noted = lists_and_watches(client, monkeypatch)
    Caches(client, ["ns"], lambda *_: None, secrets=["a", "b", "a"])
    secrets = [row for row in noted if row[0].endswith("/secrets")]
    assert secrets == [
        ("/api/v1/namespaces/ns/secrets", "metadata.name=a", "Codec"),
        ("/api/v1/namespaces/ns/secrets", "metadata.name=b", "Codec"),
    ]


def test_of_namespaces_only_those_that_are_served_are_watched(client, monkeypatch):
    noted = lists_and_watches(client, monkeypatch)
    Caches(client, ["ns"], lambda *_: None)
    assert ("/api/v1/namespaces", "metadata.name=ns", "UnstructuredCodec") in noted
    assert ("/api/v1/nodes", "", "UnstructuredCodec") in noted
    assert ("/api/v1/namespaces/ns/configmaps", "", "UnstructuredCodec") in noted
    assert not [path for path, *_ in noted if path.endswith("/secrets")]
