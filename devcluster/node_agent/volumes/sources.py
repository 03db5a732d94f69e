"""What files a volume holds, given the objects it refers to. Pure."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from devcluster.node_agent.cluster import ClusterApi, ClusterData
from devcluster.node_agent.objects import (
    Clock,
    DataKind,
    Obj,
    all_containers,
    container_resource,
    pod_field,
)
from devcluster.node_agent.volumes.writer import FileContent

DEFAULT_MODE = 0o644
SOURCES = ("configMap", "secret", "projected", "downwardAPI", "emptyDir")
_ENVIRONMENT_SOURCES: dict[str, DataKind] = {
    "configMapRef": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "secretRef": "Secret",
    "secretKeyRef": "Secret",
}
PROJECTED = ("configMap", "secret", "downwardAPI", "serviceAccountToken")


class MissingSourceError(LookupError):
    """A volume refers to something that does not exist (yet); worded as kubelet's FailedMount event."""


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A serviceAccountToken that a volume asks for."""

    audience: str
    expiration_seconds: int


@dataclass(frozen=True, slots=True)
class VolumeContext:
    """All that a volume's content depends on."""

    pod: Obj
    store: ClusterData
    tokens: Mapping[TokenRequest, str]
    allocatable: dict[str, str]


def token_requests(volume: Obj) -> Iterator[TokenRequest]:
    """The tokens a volume needs before its files can be computed."""
    for source in (volume.get("projected") or {}).get("sources") or []:
        token = source.get("serviceAccountToken")
        if token is not None:
            yield _request(token)


def references(pod: Obj) -> set[tuple[DataKind, str]]:
    """The ConfigMaps and Secrets that the pod's files and environment are made of."""
    names: set[tuple[DataKind, str]] = set()
    for container in all_containers(pod["spec"]):
        env_sources = [
            *(container.get("envFrom") or []),
            *(variable.get("valueFrom") or {} for variable in container.get("env") or []),
        ]
        for source in env_sources:
            for key, kind in _ENVIRONMENT_SOURCES.items():
                if key in source:
                    names.add((kind, source[key]["name"]))
    for volume in pod["spec"].get("volumes") or []:
        if "configMap" in volume:
            names.add(("ConfigMap", volume["configMap"]["name"]))
        if "secret" in volume:
            names.add(("Secret", volume["secret"]["secretName"]))
        for source in (volume.get("projected") or {}).get("sources") or []:
            if "configMap" in source:
                names.add(("ConfigMap", source["configMap"]["name"]))
            if "secret" in source:
                names.add(("Secret", source["secret"]["name"]))
    return names


def volume_payload(volume: Obj, context: VolumeContext) -> dict[str, FileContent] | None:
    """The files of a volume by relative path; None for an emptyDir, which starts empty and belongs to the pod.

    Raises MissingSourceError, FieldError.
    """
    if "configMap" in volume:
        return _data("ConfigMap", volume["configMap"]["name"], volume["configMap"], context)
    if "secret" in volume:
        return _data("Secret", volume["secret"]["secretName"], volume["secret"], context)
    if "downwardAPI" in volume:
        return _downward(volume["downwardAPI"], context)
    if "projected" in volume:
        files: dict[str, FileContent] = {}
        mode = volume["projected"].get("defaultMode") or DEFAULT_MODE
        for source in volume["projected"].get("sources") or []:
            files |= _projected(source, mode, context)
        return files
    return None


def object_data(kind: DataKind, obj: Obj) -> dict[str, bytes]:
    """All keys of a ConfigMap or Secret, decoded."""
    if kind == "Secret":
        return {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
    data = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    return data | {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}


def _request(token: dict[str, Any]) -> TokenRequest:
    return TokenRequest(token.get("audience") or "", int(token.get("expirationSeconds") or 3600))


def _projected(source: dict[str, Any], mode: int, context: VolumeContext) -> dict[str, FileContent]:
    if "serviceAccountToken" in source:
        token = source["serviceAccountToken"]
        return {token["path"]: FileContent(context.tokens[_request(token)].encode(), mode)}
    if "downwardAPI" in source:
        return _downward({"defaultMode": mode, **source["downwardAPI"]}, context)
    kind: DataKind = "ConfigMap" if "configMap" in source else "Secret"
    reference = source["configMap" if kind == "ConfigMap" else "secret"]
    return _data(kind, reference["name"], {"defaultMode": mode, **reference}, context)


def _data(kind: DataKind, name: str, reference: dict[str, Any], context: VolumeContext) -> dict[str, FileContent]:
    optional = bool(reference.get("optional"))
    obj = context.store.get(kind, context.pod["metadata"]["namespace"], name)
    if obj is None:
        if optional:
            return {}
        raise MissingSourceError(f'{kind.lower()} "{name}" not found')
    data = object_data(kind, obj)
    mode = reference.get("defaultMode") or DEFAULT_MODE
    items = reference.get("items")
    if not items:
        return {key: FileContent(value, mode) for key, value in data.items()}
    files = {}
    for item in items:
        if item["key"] in data:
            files[item["path"]] = FileContent(data[item["key"]], item.get("mode") or mode)
        elif not optional:
            raise MissingSourceError(f"references non-existent {kind.lower()} key: {item['key']}")
    return files


def _downward(volume: dict[str, Any], context: VolumeContext) -> dict[str, FileContent]:
    mode = volume.get("defaultMode") or DEFAULT_MODE
    files = {}
    for item in volume.get("items") or []:
        if "fieldRef" in item:
            text = pod_field(context.pod, item["fieldRef"]["fieldPath"])
        else:
            text = container_resource(context.pod, "", item["resourceFieldRef"], context.allocatable)
        files[item["path"]] = FileContent(text.encode(), item.get("mode") or mode)
    return files


RENEW_AT = 0.8
RENEW_AFTER_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class _IssuedToken:
    value: str
    renew_at: float


class TokenManager:
    """The tokens of one pod."""

    def __init__(self, api: ClusterApi, pod: Obj, clock: Clock) -> None:
        self._api = api
        self._pod = pod
        self._clock = clock
        self._tokens: dict[TokenRequest, _IssuedToken] = {}

    async def tokens(self, wanted: set[TokenRequest]) -> dict[TokenRequest, str]:
        """A valid token for each request; KubeError if the API server refuses a first one."""
        return {request: await self._token(request) for request in wanted}

    async def _token(self, request: TokenRequest) -> str:
        known = self._tokens.get(request)
        if known is not None and self._clock() < known.renew_at:
            return known.value
        metadata, account = self._pod["metadata"], self._pod["spec"].get("serviceAccountName") or "default"
        answer = await self._api.create(
            f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [request.audience] if request.audience else [],
                    "expirationSeconds": request.expiration_seconds,
                    "boundObjectRef": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                    },
                },
            },
        )
        expires = datetime.fromisoformat(answer["status"]["expirationTimestamp"]).timestamp()
        now = self._clock()
        life = min((expires - now) * RENEW_AT, RENEW_AFTER_SECONDS)
        token = _IssuedToken(str(answer["status"]["token"]), now + life)
        self._tokens[request] = token
        return token.value
