"""`metrics.k8s.io` for simulated nodes, as the metrics server serves it: what nodes and pods use now.

The API server passes requests on to it (`register`), so that clients with the API server's address find it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from devcluster.api import AdminClient, JsonObject
from devcluster.pod_loads import PodOnNode, PodUses, Use
from scheduler.kube.primitives import format_time

_VERSION = "metrics.k8s.io/v1beta1"
_PREFIX = f"/apis/{_VERSION}"
_NAMESPACE, _NAME = "kube-system", "metrics-server"
_WINDOW = "15s"


def application(pods: PodUses, nodes: Callable[[], Mapping[str, Use]]) -> web.Application:
    """The HTTP interface; `nodes` tells what is in use on each node."""

    async def resources(_: web.Request) -> web.Response:
        listed = [
            {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]}
            for name, namespaced, kind in (("nodes", False, "NodeMetrics"), ("pods", True, "PodMetrics"))
        ]
        return web.json_response(
            {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _VERSION, "resources": listed}
        )

    async def list_nodes(_: web.Request) -> web.Response:
        return _list("NodeMetrics", (_node(name, use) for name, use in nodes().items()))

    async def get_node(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        use = nodes().get(name)
        return _missing("nodes", name) if use is None else web.json_response(_node(name, use))

    async def list_pods(request: web.Request) -> web.Response:
        namespace = request.match_info.get("namespace")
        return _list("PodMetrics", (_pod(pod) for pod in pods.pods.values() if namespace in (None, pod.namespace)))

    async def get_pod(request: web.Request) -> web.Response:
        place = request.match_info["namespace"], request.match_info["name"]
        for pod in pods.pods.values():
            if (pod.namespace, pod.name) == place:
                return web.json_response(_pod(pod))
        return _missing("pods", place[1])

    app = web.Application()
    app.router.add_get(_PREFIX, resources)
    app.router.add_get(f"{_PREFIX}/nodes", list_nodes)
    app.router.add_get(f"{_PREFIX}/nodes/{{name}}", get_node)
    app.router.add_get(f"{_PREFIX}/pods", list_pods)
    app.router.add_get(f"{_PREFIX}/namespaces/{{namespace}}/pods", list_pods)
    app.router.add_get(f"{_PREFIX}/namespaces/{{namespace}}/pods/{{name}}", get_pod)
    return app


def register(api: AdminClient, port: int) -> None:
    """Let the API server pass on what is asked of the group. Raises ServiceError."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _NAME, "namespace": _NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    api.apply(f"/api/v1/namespaces/{_NAMESPACE}/services/{_NAME}", service)
    name = ".".join(reversed(_VERSION.split("/")))
    api_service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {"namespace": _NAMESPACE, "name": _NAME, "port": port},
            # The certificate is for loopback, not for the Service's name.
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    api.apply(f"/apis/apiregistration.k8s.io/v1/apiservices/{name}", api_service)


def not_served(api: AdminClient) -> str:
    """Return what is missing until the API server serves the group; "" if nothing is."""
    name = ".".join(reversed(_VERSION.split("/")))
    status = api.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{name}").get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "Available":
            return "" if condition["status"] == "True" else f"{name}: {condition.get('message', '')}"
    return f"{name} is not checked yet"


def _list(kind: str, items: Iterable[JsonObject]) -> web.Response:
    return web.json_response({"kind": f"{kind}List", "apiVersion": _VERSION, "metadata": {}, "items": list(items)})


def _node(name: str, use: Use) -> JsonObject:
    return {**_measured("NodeMetrics", {"name": name}), "usage": _usage(use)}


def _pod(pod: PodOnNode) -> JsonObject:
    """The containers share what the pod uses evenly: nobody asks which it is."""
    share = Use(pod.use.cpu / max(1, len(pod.containers)), pod.use.memory / max(1, len(pod.containers)))
    containers = [{"name": name, "usage": _usage(share)} for name in pod.containers]
    return {**_measured("PodMetrics", {"name": pod.name, "namespace": pod.namespace}), "containers": containers}


def _measured(kind: str, metadata: dict[str, str]) -> dict[str, Any]:
    now = format_time(datetime.now(UTC))
    return {
        "kind": kind,
        "apiVersion": _VERSION,
        "metadata": {**metadata, "creationTimestamp": now},
        "timestamp": now,
        "window": _WINDOW,
    }


def _usage(use: Use) -> dict[str, str]:
    return {"cpu": f"{round(use.cpu * 1e9)}n", "memory": f"{round(use.memory / 1024)}Ki"}


def _missing(resource: str, name: str) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "NotFound",
        "message": f'{resource}.metrics.k8s.io "{name}" not found',
        "code": 404,
    }
    return web.json_response(status, status=404)
