"""The API server over HTTP: any kind, by discovery. Thread-safe, as the engine works on many resources at once."""

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from devcluster.pulumi_stand_ins.kubernetes_provider.kubeconfig import Connection
from devcluster.pulumi_stand_ins.kubernetes_provider.objects import metadata_of
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object

APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
_JSON = "application/json"
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class ApiError(Exception):
    """The API server refused: HTTP status, Kubernetes' reason and message."""

    def __init__(self, status: int, body: Object) -> None:
        super().__init__(str(body.get("message") or f"HTTP {status}"))
        self.status = status
        self.reason = str(body.get("reason") or "")
        details = body.get("details")
        self.details: Object = details if isinstance(details, dict) else {}

    @property
    def causes(self) -> list[Object]:
        """The single causes of a refusal, such as one per conflicting field."""
        return [cause for cause in self.details.get("causes") or () if isinstance(cause, dict)]


class NoMatch(ApiError):
    """The server does not serve the kind (its CustomResourceDefinition is not there, or not yet)."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(
            404, {"reason": "NotFound", "message": f"no matches for kind {kind!r} in version {api_version!r}"}
        )


class Unreachable(Exception):
    """No answer from the API server."""


@dataclass(frozen=True)
class Resource:
    """How a kind is addressed."""

    plural: str
    namespaced: bool


class ApiServer:
    """Requests to one API server.

    `timeout_seconds` bounds connecting and each read. Every call raises ApiError when refused and Unreachable when
    there is no answer.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float = 30.0) -> None:
        self._connection = connection
        extra: dict[str, Any] = {}
        if connection.server.startswith("https"):
            extra["ssl_context"] = connection.ssl_context()
            if connection.cluster.get("insecure-skip-tls-verify"):
                extra["assert_hostname"] = False
            if connection.cluster.get("tls-server-name"):
                extra["server_hostname"] = str(connection.cluster["tls-server-name"])
        timeout = urllib3.Timeout(connect=min(timeout_seconds, 10.0), read=timeout_seconds)
        # Not retried: a write whose answer was lost may have been done.
        options: dict[str, Any] = {"maxsize": 16, "retries": False, "timeout": timeout, **extra}
        proxy = connection.cluster.get("proxy-url")
        self._pool = urllib3.ProxyManager(str(proxy), **options) if proxy else urllib3.PoolManager(**options)
        self._resources: dict[tuple[str, str], Resource] = {}
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = _JSON,
        query: Mapping[str, str] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> Object:
        """One request; `warn` gets the server's warnings (deprecated versions, unknown fields)."""
        headers = {"Accept": _JSON, "User-Agent": "secondary-scheduler-pulumi-stand-in"}
        token = self._connection.token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = content_type
        url = f"{self._connection.server}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            response = self._pool.request(method, url, body=None if body is None else json.dumps(body), headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"{self._connection.server}: {_cause(error)}") from error
        answer = _decode(response.data)
        if response.status >= 400:
            raise ApiError(response.status, answer)
        if warn is not None:
            for text in _WARNING.findall(response.headers.get("Warning", "")):
                warn(text.replace('\\"', '"'))
        return answer

    def resource(self, api_version: str, kind: str) -> Resource:
        """How the kind is addressed; raises NoMatch if it is not served."""
        with self._lock:
            known = self._resources.get((api_version, kind))
        if known is not None:
            return known
        try:
            listed = self.request("GET", _root(api_version))
        except ApiError as error:
            if error.status == 404:
                raise NoMatch(api_version, kind) from None
            raise
        with self._lock:
            for entry in listed.get("resources") or ():
                if "/" not in entry["name"]:
                    found = Resource(str(entry["name"]), bool(entry["namespaced"]))
                    self._resources[api_version, str(entry["kind"])] = found
            known = self._resources.get((api_version, kind))
        if known is None:
            raise NoMatch(api_version, kind)
        return known

    def forget(self) -> None:
        """Drop what is known about kinds: a CustomResourceDefinition has come, changed or gone."""
        with self._lock:
            self._resources.clear()

    def path(self, obj: Object, name: str | None = None) -> str:
        """Where objects of this kind and namespace are, or the one called `name`."""
        api_version, kind = str(obj["apiVersion"]), str(obj["kind"])
        resource = self.resource(api_version, kind)
        path = _root(api_version)
        if resource.namespaced:
            path += (
                f"/namespaces/{quote(str(metadata_of(obj).get('namespace') or self._connection.namespace), safe='')}"
            )
        path += f"/{resource.plural}"
        return path if name is None else f"{path}/{quote(name, safe='')}"

    def get(self, obj: Object, name: str) -> Object:
        """The live object."""
        return self.request("GET", self.path(obj, name))

    def list(self, api_version: str, kind: str, namespace: str, selector: str) -> list[Object]:
        """Objects of a namespace by label selector."""
        where = self.path({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace}})
        items: list[Object] = self.request("GET", where, query={"labelSelector": selector}).get("items") or []
        return items


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _decode(data: bytes) -> Object:
    try:
        answer = json.loads(data) if data else {}
    except ValueError:
        answer = None
    # A group that is not served answers in plain text.
    return answer if isinstance(answer, dict) else {"message": data.decode(errors="replace").strip()}


def _cause(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    text = str(reason)
    return text.split(">: ", 1)[-1] if ">: " in text else text
