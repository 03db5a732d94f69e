"""The door of the API server's client: configuration, requests (asynchronous and blocking), list and watch.

What belongs here: everything between a caller and the API server's HTTP interface. It imports `kube.model` and
`kube.primitives`, and knows nothing of scheduling. Modules that open connections are imported on first use, since many
callers only need `ClientConfig` or the errors.
"""

from typing import TYPE_CHECKING

from scheduler.kube.client.config import ClientConfig as ClientConfig, proxy_variable as proxy_variable
from scheduler.kube.client.credentials import Credentials as Credentials
from scheduler.kube.client.errors import (
    AlreadyExists as AlreadyExists,
    ApiError as ApiError,
    BadRequest as BadRequest,
    ConfigError as ConfigError,
    Conflict as Conflict,
    ConnectionFailed as ConnectionFailed,
    ConnectionLost as ConnectionLost,
    Expired as Expired,
    Forbidden as Forbidden,
    Invalid as Invalid,
    KubeError as KubeError,
    MalformedResponse as MalformedResponse,
    NotFound as NotFound,
    ResponseTooLarge as ResponseTooLarge,
    ServerError as ServerError,
    TooManyRequests as TooManyRequests,
    Unauthorized as Unauthorized,
    WriteWithheld as WriteWithheld,
    connection_error as connection_error,
)
from scheduler.kube.client.paths import (
    APPLY_PATCH as APPLY_PATCH,
    JSON as JSON,
    JSON_PATCH as JSON_PATCH,
    MERGE_PATCH as MERGE_PATCH,
    STRATEGIC_MERGE_PATCH as STRATEGIC_MERGE_PATCH,
    api_path as api_path,
)
from scheduler.kube.client.store import Store as Store, object_meta as object_meta
from scheduler.kube.client.tokens import request_token as request_token, review_token as review_token
from scheduler.lazy import lazy_attributes

if TYPE_CHECKING:
    from scheduler.kube.client.etcdrestore import (
        CONTROL_PLANE_LEASES as CONTROL_PLANE_LEASES,
        EtcdRestore as EtcdRestore,
        EtcdRestores as EtcdRestores,
        LeasePoll as LeasePoll,
    )
    from scheduler.kube.client.http import KubeClient as KubeClient, server_version as server_version
    from scheduler.kube.client.listwatch import (
        Reflector as Reflector,
        ReflectorState as ReflectorState,
        ReflectorTiming as ReflectorTiming,
        Sink as Sink,
        unchanged as unchanged,
    )
    from scheduler.kube.client.pages import PageReader as PageReader
    from scheduler.kube.client.sync import SyncClient as SyncClient, SyncConnection as SyncConnection


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
            "ReflectorState": "listwatch",
            "Sink": "listwatch",
            "SyncClient": "sync",
            "SyncConnection": "sync",
            "server_version": "http",
            "ReflectorTiming": "listwatch",
            "unchanged": "listwatch",
        },
    )
