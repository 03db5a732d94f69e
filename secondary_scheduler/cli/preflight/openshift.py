"""OpenShift's own monitoring: its routes, the CA of its ingress, and a bound token of a ServiceAccount.

Written from OpenShift's documentation and tested with its Route CRD on a plain API server, never on OpenShift itself.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.kube.client import Forbidden, KubeError, NotFound, SyncConnection, request_token

NAMESPACE = "openshift-monitoring"
ROUTES = ("thanos-querier", "prometheus-k8s")
"""In order of preference: Thanos Querier answers for all Prometheus instances of the cluster."""
OPERAND = "openshift-secondary-scheduler-operator/secondary-scheduler"
ACCOUNTS = (OPERAND, "openshift-monitoring/prometheus-k8s")
"""Accounts whose token is tried: the scheduler's own, as it will be used; before it exists, the monitoring's."""
TOKEN_SECONDS = 600
_GROUP = "/apis/route.openshift.io/v1"
_INGRESS_CA = "/api/v1/namespaces/openshift-config-managed/configmaps/default-ingress-cert"


class OpenShiftError(Exception):
    """Says in one line what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route to the monitoring: its name and its URL."""

    name: str
    address: str


def is_openshift(connection: SyncConnection) -> bool:
    """Return whether the API server serves routes.

    Raises:
        KubeError: it does not answer.
    """
    try:
        connection.get(_GROUP)
    except NotFound:
        return False
    return True


def find_route(connection: SyncConnection) -> Route:
    """Return the first of the monitoring's routes that exists and is admitted.

    Raises:
        OpenShiftError: there is none, or it may not be read.
        KubeError: the API server does not answer.
    """
    for name in ROUTES:
        try:
            route = _object(connection.get(f"{_GROUP}/namespaces/{NAMESPACE}/routes/{name}"))
        except NotFound:
            continue
        except Forbidden as error:
            raise OpenShiftError(
                f"no right to read routes in {NAMESPACE}: {error}; ask for the role cluster-monitoring-view, or give"
                " --address"
            ) from error
        if host := _host(route):
            scheme = "https" if route.get("spec", {}).get("tls") else "http"
            return Route(name, f"{scheme}://{host}")
    raise OpenShiftError(
        f"no route {' or '.join(ROUTES)} in {NAMESPACE} has a host; is the cluster monitoring installed? If not, give"
        " --address"
    )


def ingress_authority(connection: SyncConnection) -> str | None:
    """Return the CA of the cluster's ingress as PEM; None where it cannot be read or is not needed."""
    try:
        config_map = _object(connection.get(_INGRESS_CA))
    except KubeError:
        return None
    bundle = (config_map.get("data") or {}).get("ca-bundle.crt")
    return bundle if isinstance(bundle, str) and "BEGIN CERTIFICATE" in bundle else None


def bound_token(connection: SyncConnection, account: str) -> str:
    """Create a token of a ServiceAccount `NAMESPACE/NAME`, valid for `TOKEN_SECONDS`.

    Raises:
        OpenShiftError: there is no such account, or no right to create a token of it.
        KubeError: the API server does not answer.
    """
    namespace, _, name = account.partition("/")
    try:
        token = request_token(connection, namespace, name, TOKEN_SECONDS)
    except NotFound as error:
        raise OpenShiftError(f"there is no ServiceAccount {account}; give another with --service-account") from error
    except Forbidden as error:
        raise OpenShiftError(
            f"no right to create a token of {account} (serviceaccounts/token); ask for it, or give --token-file"
        ) from error
    if not token:
        raise OpenShiftError(f"the API server answered without a token of {account}; give --token-file")
    return token


def secret_values(connection: SyncConnection, name: str) -> dict[str, str]:
    """Return the values of a Secret in the scheduler's namespace.

    Raises:
        OpenShiftError: it does not exist, cannot be read, or holds a value that is not text.
        KubeError: the API server does not answer.
    """
    namespace = OPERAND.partition("/")[0]
    try:
        secret = _object(connection.get(f"/api/v1/namespaces/{namespace}/secrets/{name}"))
    except (NotFound, Forbidden) as error:
        raise OpenShiftError(f"Secret {namespace}/{name}: {error.reason}") from error
    data = secret.get("data") or {}
    try:
        return {key: base64.b64decode(value).decode() for key, value in data.items()}
    except (ValueError, TypeError) as error:
        raise OpenShiftError(f"Secret {namespace}/{name} holds a value that is not text") from error


def _host(route: Mapping[str, Any]) -> str:
    for ingress in (route.get("status") or {}).get("ingress") or []:
        conditions = ingress.get("conditions") or []
        refused = any(
            condition.get("type") == "Admitted" and condition.get("status") == "False" for condition in conditions
        )
        if ingress.get("host") and not refused:
            return str(ingress["host"])
    return ""


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        decoded = json.loads(body)
    except ValueError as error:
        raise OpenShiftError("the API server's answer is not JSON") from error
    return decoded if isinstance(decoded, dict) else {}
