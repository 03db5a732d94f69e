"""A pod, a Deployment or a namespace by its name, and the names that are like one that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from scheduler.kube.client import KubeError, NotFound, SyncConnection, api_path
from secondary_scheduler.clusterstatus.listing import list_items, part, read_object
from secondary_scheduler.errors import CommandError, printable

API_VERSIONS = {"pod": "v1", "deployment": "apps/v1", "namespace": "v1"}
_MAX_NAMES = 5000
"""Names that are compared with one that does not exist."""
_MAX_SUGGESTIONS = 3


def read_named(connection: SyncConnection, kind: str, namespace: str, name: str) -> dict[str, Any]:
    """Return a pod or a Deployment.

    Raises:
        CommandError: there is none of this name; it says where there is one, or which names are like it.
        KubeError: it cannot be read.
    """
    path = api_path(API_VERSIONS[kind], f"{kind}s", namespace=namespace, name=name)
    try:
        return read_object(connection.get(path), path)
    except NotFound:
        hint = _like(connection, kind, namespace, name)
        raise CommandError(printable(f"{namespace}/{name}: there is no such {kind}{hint}")) from None


def _like(connection: SyncConnection, kind: str, namespace: str, name: str) -> str:
    """What the user may have meant, as far as the user may read it; "" if nothing is like it."""
    try:
        connection.get(api_path("v1", "namespaces", name=namespace))
    except NotFound:
        return f", as there is no namespace {namespace}{_did_you_mean(connection, 'namespace', None, namespace)}"
    except KubeError:
        pass  # who may read pods of a namespace need not be allowed to read the namespace
    try:
        everywhere = api_path(API_VERSIONS[kind], f"{kind}s")
        named = list_items(connection, everywhere, {"fieldSelector": f"metadata.name={name}"}, most=_MAX_SUGGESTIONS)
        places = sorted(str(part(item, "metadata").get("namespace")) for item in named)
    except KubeError:
        places = []
    if places:
        return f"; one of this name is in {' and in '.join(places)}: -n {places[0]}"
    return _did_you_mean(connection, kind, namespace, name)


def _did_you_mean(connection: SyncConnection, kind: str, namespace: str | None, name: str) -> str:
    try:
        items = list_items(connection, api_path(API_VERSIONS[kind], f"{kind}s", namespace=namespace), most=_MAX_NAMES)
        names = [str(part(item, "metadata").get("name")) for item in items]
    except KubeError:
        return ""
    # A Deployment's pods have its name and more.
    longer = [each for each in names if each.startswith(f"{name}-")]
    return suggestion(name, names) or suggested(longer)


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean …?` with the names that are like one; "" if none is."""
    return suggested(difflib.get_close_matches(name, list(names), n=_MAX_SUGGESTIONS, cutoff=0.6))


def suggested(names: Iterable[str]) -> str:
    """Return `; did you mean …?` with the first of these names; "" without any."""
    first = list(islice(names, _MAX_SUGGESTIONS))
    return f"; did you mean {' or '.join(first)}?" if first else ""


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the node of a pod; "" while it has none."""
    return str(part(pod, "spec").get("nodeName") or "")


def name_of(pod: Mapping[str, Any]) -> str:
    """Return the name of an object."""
    return str(part(pod, "metadata").get("name") or "")
