"""The door of the API server's client: configuration, requests (asynchronous and blocking), list and watch.

What belongs here: everything between a caller and the API server's HTTP interface. It imports `kube.model` and
`kube.primitives`, and knows nothing of scheduling. Modules that open connections are imported on first use, since many
callers only need `ClientConfig` or the errors.
"""

from typing import TYPE_CHECKING

from scheduler.kube.client.config import ClientConfig
from scheduler.kube.client.credentials import Credentials
from scheduler.kube.client.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    ConfigError,
    Conflict,
    ConnectionFailed,
    ConnectionLost,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    MalformedResponse,
    NotFound,
    ResponseTooLarge,
    ServerError,
    TooManyRequests,
    Unauthorized,
    WriteWithheld,
    connection_error,
)
from scheduler.kube.client.limiter import TokenBucket
from scheduler.kube.client.paths import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    api_path,
)
from scheduler.kube.client.proxies import proxy_variable
from scheduler.kube.client.store import Changes, Store, object_meta
from scheduler.lazy import lazy_attributes

if TYPE_CHECKING:
    from scheduler.kube.client.etcdrestore import CONTROL_PLANE_LEASES, EtcdRestore, EtcdRestores, LeasePoll
    from scheduler.kube.client.http import KubeClient, server_version
    from scheduler.kube.client.listwatch import Reflector, Sink, unchanged
    from scheduler.kube.client.pages import PageReader
    from scheduler.kube.client.sync import SyncClient, SyncConnection
    from scheduler.kube.client.watchstate import ReflectorState, ReflectorTiming

__all__ = [
    "APPLY_PATCH",
    "CONTROL_PLANE_LEASES",
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "Changes",
    "ClientConfig",
    "ConfigError",
    "Conflict",
    "ConnectionFailed",
    "ConnectionLost",
    "Credentials",
    "EtcdRestore",
    "EtcdRestores",
    "Expired",
    "Forbidden",
    "Invalid",
    "KubeClient",
    "KubeError",
    "LeasePoll",
    "MalformedResponse",
    "NotFound",
    "PageReader",
    "Reflector",
    "ReflectorState",
    "ReflectorTiming",
    "ResponseTooLarge",
    "ServerError",
    "Sink",
    "Store",
    "SyncClient",
    "SyncConnection",
    "TokenBucket",
    "TooManyRequests",
    "Unauthorized",
    "WriteWithheld",
    "api_path",
    "connection_error",
    "object_meta",
    "proxy_variable",
    "server_version",
    "unchanged",
]

if not TYPE_CHECKING:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "KubeClient": "http",
            "CONTROL_PLANE_LEASES": "etcdrestore",
            "LeasePoll": "etcdrestore",
            "PageReader": "pages",
            "EtcdRestore": "etcdrestore",
            "EtcdRestores": "etcdrestore",
            "Reflector": "listwatch",
            "ReflectorState": "watchstate",
            "Sink": "listwatch",
            "SyncClient": "sync",
            "SyncConnection": "sync",
            "server_version": "http",
            "ReflectorTiming": "watchstate",
            "unchanged": "listwatch",
        },
    )
