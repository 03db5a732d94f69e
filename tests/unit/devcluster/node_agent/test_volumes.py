"""The content of volumes, and its atomic update."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from devcluster.node_agent.environment import container_environment
from devcluster.node_agent.objects import (
    ContainerConfigError,
    DataKind,
    FieldError,
    NotSyncedError,
    Obj,
    container_resource,
    pod_field,
)
from devcluster.node_agent.sandbox import VolumeMount
from devcluster.node_agent.volumes.manager import VolumeManager
from devcluster.node_agent.volumes.sources import (
    MissingSourceError,
    TokenManager,
    TokenRequest,
    VolumeContext,
    references,
    token_requests,
    volume_payload,
)
from devcluster.node_agent.volumes.writer import FileContent, write_payload


# --- the atomic writer ------------------------------------------------------------------------------------------------
def shown(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in directory.rglob("*")
        if path.is_file() and not str(path.relative_to(directory)).startswith("..")
    }


def files(**contents: str) -> dict[str, FileContent]:
    return {name: FileContent(text.encode()) for name, text in contents.items()}


def test_files_appear_through_one_link(tmp_path: Path) -> None:
    assert write_payload(tmp_path, files(a="1", b="2"))
    assert shown(tmp_path) == {"a": "1", "b": "2"}
    assert os.readlink(tmp_path / "a") == "..data/a"
    assert os.readlink(tmp_path / "..data").startswith("..20")


def test_reader_of_the_old_version_never_sees_the_new_one(tmp_path: Path) -> None:
    write_payload(tmp_path, files(a="1", b="1"))
    before = (tmp_path / "..data").resolve()
    with (tmp_path / "a").open() as open_file:
        assert write_payload(tmp_path, files(a="2", b="2"))
        assert open_file.read() == "1"
    assert shown(tmp_path) == {"a": "2", "b": "2"}
    assert not before.exists()
    assert len([path for path in tmp_path.iterdir() if path.name.startswith("..20")]) == 1


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    write_payload(tmp_path, files(a="1"))
    target = os.readlink(tmp_path / "..data")
    assert write_payload(tmp_path, files(a="1")) is False
    assert os.readlink(tmp_path / "..data") == target


def test_change_of_mode_alone_counts(tmp_path: Path) -> None:
    write_payload(tmp_path, files(a="1"))
    assert write_payload(tmp_path, {"a": FileContent(b"1", 0o400)})
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o400


def test_removed_keys_disappear_and_directories_work(tmp_path: Path) -> None:
    write_payload(tmp_path, {"x/y": FileContent(b"1"), "z": FileContent(b"2")})
    assert (tmp_path / "x" / "y").read_text() == "1"
    write_payload(tmp_path, files(z="2"))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".") == ["z"]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "..data"])
def test_paths_out_of_the_volume_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="not a valid path within a volume"):
        write_payload(tmp_path, {path: FileContent(b"")})


def test_files_are_given_to_the_group_and_it_may_read_them(tmp_path: Path) -> None:
    secret = {"a": FileContent(b"1", 0o400)}
    assert write_payload(tmp_path, secret, os.getegid())
    state = (tmp_path / "a").stat()
    assert (state.st_gid, state.st_mode & 0o777) == (os.getegid(), 0o440)
    assert not write_payload(tmp_path, secret, os.getegid())


# --- content ----------------------------------------------------------------------------------------------------------
class Objects:
    """A DataStore with given objects."""

    def __init__(self, **objects: Obj) -> None:
        self._objects = objects

    async def follow(self, owner: str, namespace: str, references: Collection[tuple[DataKind, str]]) -> None:
        return None

    def release(self, owner: str) -> None:
        return None

    def get(self, kind: DataKind, namespace: str, name: str) -> Obj | None:
        if name == "late":
            raise NotSyncedError("failed to sync configmap cache: timed out waiting for the condition")
        return self._objects.get(name)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


POD: Obj = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"b": "2", "a": 'x"y'}, "annotations": {}},
    "spec": {
        "nodeName": "real-0",
        "containers": [{"name": "c", "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "250m"}}}],
    },
    "status": {"podIP": "127.10.0.1", "podIPs": [{"ip": "127.10.0.1"}], "hostIP": "127.0.0.1"},
}
STORE = Objects(
    settings={"data": {"a": "1", "b": "2"}, "binaryData": {"raw": encoded("bytes")}},
    secret={"data": {"token": encoded("hidden")}},
)
TOKEN = TokenRequest("aud", 600)
CONTEXT = VolumeContext(POD, STORE, {TOKEN: "jwt"}, {"cpu": "2", "memory": "1Gi"})


def texts(volume: Obj) -> dict[str, tuple[str, int]]:
    payload = volume_payload({"name": "v", **volume}, CONTEXT)
    assert payload is not None
    return {path: (content.data.decode(), content.mode) for path, content in payload.items()}


def test_config_map_gives_all_keys_or_the_chosen_ones() -> None:
    assert texts({"configMap": {"name": "settings", "defaultMode": 0o600}}) == {
        "a": ("1", 0o600), "b": ("2", 0o600), "raw": ("bytes", 0o600),
    }  # fmt: skip
    chosen = {"name": "settings", "items": [{"key": "a", "path": "x/y", "mode": 0o400}]}
    assert texts({"configMap": chosen}) == {"x/y": ("1", 0o400)}


def test_projected_volume_joins_its_sources() -> None:
    sources = [
        {"serviceAccountToken": {"audience": "aud", "expirationSeconds": 600, "path": "token"}},
        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "ca.crt"}]}},
        {"secret": {"name": "secret"}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    volume = {"projected": {"defaultMode": 0o444, "sources": sources}}
    assert set(token_requests(volume)) == {TOKEN}
    assert {path: text for path, (text, _) in texts(volume).items()} | {"token": "hidden"} == {
        "token": "hidden", "ca.crt": "1", "labels": 'a="x\\"y"\nb="2"',
    }  # fmt: skip


def test_empty_directory_has_no_payload() -> None:
    assert volume_payload({"name": "v", "emptyDir": {}}, CONTEXT) is None


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "gone"}}, 'configmap "gone" not found'),
        ({"secret": {"secretName": "gone"}}, 'secret "gone" not found'),
        (
            {"configMap": {"name": "settings", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent configmap key: z",
        ),
    ],
)
def test_missing_sources_are_named(volume: Obj, message: str) -> None:
    with pytest.raises(MissingSourceError, match=message):
        texts(volume)


@pytest.mark.parametrize(
    "volume",
    [
        {"configMap": {"name": "gone", "optional": True}},
        {"secret": {"secretName": "secret", "optional": True, "items": [{"key": "z", "path": "z"}]}},
    ],
)
def test_optional_sources_may_be_missing(volume: Obj) -> None:
    assert texts(volume) == {}


def test_everything_a_pod_refers_to_is_watched() -> None:
    container = {
        "name": "c",
        "envFrom": [{"secretRef": {"name": "one"}}],
        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "two", "key": "k"}}}, {"name": "B"}],
    }
    volumes = [
        {"name": "v", "configMap": {"name": "three"}},
        {"name": "w", "projected": {"sources": [{"configMap": {"name": "four"}}, {"secret": {"name": "five"}}]}},
        {"name": "x", "secret": {"secretName": "six"}},
    ]
    pod = {"spec": {"containers": [], "initContainers": [container], "volumes": volumes}}
    assert references(pod) == {
        ("Secret", "one"), ("ConfigMap", "two"), ("ConfigMap", "three"), ("ConfigMap", "four"), ("Secret", "five"),
        ("Secret", "six"),
    }  # fmt: skip


# --- environment ------------------------------------------------------------------------------------------------------
def environment(*env: Obj, env_from: Collection[Obj] = ()) -> dict[str, str]:
    container = {"name": "c", "env": list(env), "envFrom": list(env_from)}
    return container_environment(container, CONTEXT, {"KUBERNETES_SERVICE_HOST": "127.0.0.1"})


def test_later_variables_see_earlier_ones_and_win() -> None:
    variables = environment(
        {"name": "ONE", "value": "$(PRE_a)"},
        {"name": "TWO", "value": "$(ONE)/$(KUBERNETES_SERVICE_HOST)/$(THREE)"},
        {"name": "THREE", "value": "3"},
        {"name": "PRE_b", "value": "own"},
        env_from=[{"prefix": "PRE_", "configMapRef": {"name": "settings"}}],
    )
    assert variables == {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1", "PRE_a": "1", "PRE_b": "own", "PRE_raw": "bytes", "ONE": "1",
        "TWO": "1/127.0.0.1/$(THREE)", "THREE": "3",
    }  # fmt: skip


def value_from(kind: str, **reference: Any) -> Obj:
    return {"name": "X", "valueFrom": {kind: reference}}


def test_values_come_from_keys_and_fields() -> None:
    assert environment(value_from("secretKeyRef", name="secret", key="token"))["X"] == "hidden"
    assert environment(value_from("fieldRef", fieldPath="status.podIP"))["X"] == "127.10.0.1"
    assert "X" not in environment(value_from("configMapKeyRef", name="gone", key="k", optional=True))
    assert "X" not in environment(value_from("configMapKeyRef", name="settings", key="k", optional=True))


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (value_from("configMapKeyRef", name="gone", key="k"), 'configmap "gone" not found'),
        (value_from("secretKeyRef", name="secret", key="k"), "couldn't find key k in Secret n/secret"),
        (value_from("configMapKeyRef", name="late", key="k"), "failed to sync configmap cache"),
    ],
)
def test_missing_references_are_configuration_errors(variable: Obj, message: str) -> None:
    with pytest.raises(ContainerConfigError, match=message):
        environment(variable)


def test_unknown_field_is_refused() -> None:
    with pytest.raises(FieldError, match=r"fieldPath 'status.phase' is not supported"):
        pod_field(POD, "status.phase")


@pytest.mark.parametrize(
    ("reference", "wanted"),
    [
        ({"resource": "limits.memory"}, str(64 << 20)),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "64"),
        ({"resource": "requests.cpu"}, "1"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "250"),
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "requests.memory"}, "0"),
    ],
)
def test_resources_are_divided_and_rounded_up(reference: Obj, wanted: str) -> None:
    assert container_resource(POD, "c", reference, {"cpu": "2"}) == wanted


# --- tokens -----------------------------------------------------------------------------------------------------------
class TokenApi:
    """An API server that hands out numbered tokens of 1000 s."""

    def __init__(self) -> None:
        self.asked: list[Obj] = []

    async def get(self, path: str) -> Obj:
        raise AssertionError("not asked")

    async def patch(self, path: str, body: Obj) -> Obj:
        raise AssertionError("not asked")

    async def delete(self, path: str, options: dict[str, Any]) -> None:
        raise AssertionError("not asked")

    async def create(self, path: str, body: Obj) -> Obj:
        assert path == "/api/v1/namespaces/n/serviceaccounts/default/token"
        self.asked.append(body["spec"])
        return {"status": {"token": f"token-{len(self.asked)}", "expirationTimestamp": "1970-01-01T00:16:40Z"}}


async def test_token_is_renewed_at_four_fifths_of_its_life() -> None:
    now = [0.0]
    api = TokenApi()
    manager = TokenManager(api, POD, lambda: now[0])
    assert await manager.tokens({TOKEN}) == {TOKEN: "token-1"}
    now[0] = 799
    assert await manager.tokens({TOKEN}) == {TOKEN: "token-1"}
    now[0] = 801
    assert await manager.tokens({TOKEN}) == {TOKEN: "token-2"}
    assert api.asked[0]["audiences"] == ["aud"]
    assert api.asked[0]["expirationSeconds"] == 600
    assert api.asked[0]["boundObjectRef"]["uid"] == "u"


# --- paths in volumes ------------------------------------------------------------------------------------------------
class AsWritten:
    """Texts of ConfigMaps need no change."""

    def volume_text(self, mounts: Sequence[VolumeMount], data: bytes) -> bytes:
        return data


async def test_a_link_out_of_an_empty_directory_is_not_followed(tmp_path: Path) -> None:
    mount = {"name": "scratch", "mountPath": "/m", "subPath": "way/out"}
    container = {"name": "c", "volumeMounts": [mount]}
    pod = {**POD, "spec": {"containers": [container], "volumes": [{"name": "scratch", "emptyDir": {}}]}}
    volumes = VolumeManager(tmp_path / "v", AsWritten(), STORE, TokenManager(TokenApi(), pod, lambda: 0.0), {})
    await volumes.refresh(pod)
    volumes.make_sub_paths(pod, [container])
    assert volumes.mounts(pod, container)[0].source == str(tmp_path / "v/scratch/way/out")
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(tmp_path / "v/scratch/way")
    (tmp_path / "v/scratch/way").symlink_to(outside)
    with pytest.raises(ContainerConfigError, match="leads out of the volume"):
        volumes.make_sub_paths(pod, [container])
    with pytest.raises(ContainerConfigError, match="leads out of the volume"):
        volumes.mounts(pod, container)
    assert list(outside.iterdir()) == []
