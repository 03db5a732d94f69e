"""The nodes' load for a snapshot, in load-watcher's form whatever the source is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.catalog import CredentialRules, address_problem
from scheduler.load import (
    GuardedSession,
    LoadError,
    LoadSettings,
    PrometheusSource,
    match_nodes,
    watcher_document,
    window_seconds,
)
from secondary_scheduler.clustersnapshot.origin import LoadOrigin
from secondary_scheduler.nodeload import LOAD_API_VERSION, LOAD_KIND

_MAX_AGE = 300.0
"""Seconds after which a sample is left out, as the scheduler by default does not use it."""


def read_load_document(
    origin: LoadOrigin, node_of_address: Callable[[str], str | None], say: Callable[[str], None]
) -> dict[str, Any]:
    """Return the load as a document of a snapshot.

    Raises:
        LoadError: the source does not answer with loads.
    """
    address = origin.prometheus or origin.watcher or ""
    if problem := address_problem(address):
        raise LoadError(f"the address of the load source {problem}")
    settings = LoadSettings(
        address=address,
        token_file=origin.token_file,
        ca_file=origin.ca_file,
        window=origin.window,
        rules=CredentialRules(directory=None, allow_insecure=origin.allow_insecure),
    )
    content = _from_watcher(settings) if origin.watcher else _from_prometheus(settings, node_of_address, say)
    return {"apiVersion": LOAD_API_VERSION, "kind": LOAD_KIND, "metadata": {"name": "nodes"}, **content}


def _from_watcher(settings: LoadSettings) -> dict[str, Any]:
    url = f"{settings.address.rstrip('/')}/watcher"
    session = GuardedSession(settings)
    try:
        response = session.request("GET", url)
    finally:
        session.close()
    if response.status_code != 200:
        raise LoadError(f"{url}: HTTP {response.status_code}")
    try:
        content = msgspec.json.decode(response.content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LoadError(f"{url}: not the JSON of a load-watcher: {error}") from error
    return {key: content[key] for key in ("timestamp", "window", "source", "data") if key in content}


def _from_prometheus(
    settings: LoadSettings, node_of_address: Callable[[str], str | None], say: Callable[[str], None]
) -> dict[str, Any]:
    source = PrometheusSource(settings)
    try:
        reading = source.read()
    finally:
        source.close()
    matched, unmatched = match_nodes(reading, node_of_address)
    fresh = matched.fresh_loads(reading.window_end, _MAX_AGE)
    if unmatched:
        say(f"left out the load of {len(unmatched)} instances that are no nodes, such as {unmatched[0]}")
    if len(fresh) < len(matched.loads):
        old = sorted(matched.loads.keys() - fresh.keys())
        say(f"left out the load of {len(old)} nodes that is older than {_MAX_AGE:.0f} s, such as {old[0]}")
    return watcher_document(
        fresh,
        source="Prometheus",
        window=settings.window,
        window_seconds=window_seconds(settings.window),
        end=reading.window_end,
        timestamp=reading.window_end,
    )
