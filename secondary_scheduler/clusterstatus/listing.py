"""Lists of the API server, page by page."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

import msgspec
from msgspec import Raw, Struct

from scheduler.kube.client import KubeError, MalformedResponse, NotFound, ResponseTooLarge, SyncConnection, api_path
from secondary_scheduler.errors import CommandError, printable
from secondary_scheduler.kubeobjects import KubeObject, part

_PAGE = 200
_MAX_NAMED = 5
MAX_OBJECTS = 500_000
"""Objects of one list that are read."""


def list_items(
    connection: SyncConnection,
    path: str,
    params: Mapping[str, str | int] | None = None,
    *,
    limit: int = MAX_OBJECTS,
) -> Iterator[KubeObject]:
    """Yield the objects of a list; what is no object is left out. Pages are made shorter where objects are long.

    Args:
        connection: its `max_bytes` bounds what is in memory.
        path: of the collection.
        params: such as `labelSelector`.
        limit: objects; the rest is left out.

    Raises:
        KubeError: a page cannot be had.
    """
    token, count = "", 0
    query: dict[str, str | int] = {"limit": _PAGE, **(params or {})}
    while True:
        try:
            page = read_object(connection.get(path, {**query, "continue": token} if token else query), path)
        except ResponseTooLarge:
            page_size = int(query["limit"])
            if page_size <= 1:
                raise
            query["limit"] = max(1, page_size // 8)
            continue
        for item in page.get("items") or ():
            if isinstance(item, dict):
                if count == limit:
                    return
                count += 1
                yield item
        token = str((page.get("metadata") or {}).get("continue") or "")
        if not token:
            return


def read_object(body: bytes, path: str) -> KubeObject:
    """Return the JSON object that was read from a path.

    Raises:
        MalformedResponse: it is none.
    """
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise MalformedResponse(f"GET {path}: not a JSON object")
    return content


def first_names(names: Collection[str]) -> str:
    """Return the first five names in their order, for a message."""
    others = ", ..." if len(names) > _MAX_NAMED else ""
    return f"{', '.join(sorted(names)[:_MAX_NAMED])}{others}"


class _ListPosition(Struct, rename={"continued": "continue"}):
    continued: str | None = None


class _ListPage(Struct):
    metadata: _ListPosition | None = None
    items: list[Raw] | None = None


_raw_page = msgspec.json.Decoder(_ListPage)


def list_raw(connection: SyncConnection, path: str, params: Mapping[str, str | int]) -> Iterator[Raw]:
    """Yield the objects of a list as JSON, for whoever decodes only a part of each.

    Args:
        connection: to the API server.
        path: of the list.
        params: `limit` among them says how many a page has.

    Raises:
        KubeError: a page cannot be had.
    """
    token = ""
    while True:
        body = connection.get(path, {**params, "continue": token} if token else params)
        try:
            page = _raw_page.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise MalformedResponse(f"GET {path}: not a list: {error}") from error
        yield from page.items or ()
        token = (page.metadata.continued or "") if page.metadata is not None else ""
        if not token:
            return


API_VERSIONS = {
    "pod": "v1",
    "deployment": "apps/v1",
    "namespace": "v1",
    "podgroup": "scheduling.x-k8s.io/v1alpha1",
}
_MAX_NAMES = 5000
"""Names that are compared with one that does not exist."""
_MAX_SUGGESTIONS = 3


def read_named(connection: SyncConnection, kind: str, namespace: str, name: str) -> KubeObject:
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
        named = list_items(connection, everywhere, {"fieldSelector": f"metadata.name={name}"}, limit=_MAX_SUGGESTIONS)
        places = sorted(str(part(item, "metadata").get("namespace")) for item in named)
    except KubeError:
        places = []
    if places:
        return f"; one of this name is in {' and in '.join(places)}: -n {places[0]}"
    return _did_you_mean(connection, kind, namespace, name)


def _did_you_mean(connection: SyncConnection, kind: str, namespace: str | None, name: str) -> str:
    try:
        items = list_items(connection, api_path(API_VERSIONS[kind], f"{kind}s", namespace=namespace), limit=_MAX_NAMES)
        names = [str(part(item, "metadata").get("name")) for item in items]
    except KubeError:
        return ""
    # A Deployment's pods have its name and more.
    longer = [candidate for candidate in names if candidate.startswith(f"{name}-")]
    return suggestion(name, names) or suggested(longer)


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean …?` with the names that are like one; "" if none is."""
    return suggested(difflib.get_close_matches(name, list(names), n=_MAX_SUGGESTIONS, cutoff=0.6))


def suggested(names: Iterable[str]) -> str:
    """Return `; did you mean …?` with the first of these names; "" without any."""
    first = list(islice(names, _MAX_SUGGESTIONS))
    return f"; did you mean {' or '.join(first)}?" if first else ""
