"""Requests to the API server, each of which may fail for itself."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from scheduler.kube.client import BadRequest, ConnectionFailed, KubeError, NotFound, SyncConnection, api_path
from secondary_scheduler.cli.bundle.problems import Problems, Right
from secondary_scheduler.clusterstatus.listing import list_items, read_object

T = TypeVar("T")
SECONDS: Final = 300.0
"""After which nothing more is asked: an API server that answers slowly must not hold the user up for hours."""
_LOG_BYTES: Final = 4 << 20
"""Read of one log at most; the client's limit for an answer is twice that."""
_LOG_LINES: Final = 10_000
_SILENCES: Final = 3
"""Requests in a row without an answer, after which no more are sent."""


class Reader:
    """Reads what the user may read, and notes the rest as problems."""

    def __init__(
        self,
        connection: SyncConnection,
        namespace: str,
        problems: Problems,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self.namespace = namespace
        self._problems = problems
        self._clock = clock
        self._end = clock() + SECONDS
        self._silences = 0

    def may_ask(self, part: str) -> bool:
        """Whether there is time for another request; if not, the part is noted as a problem."""
        if self._silences >= _SILENCES:
            self._problems.add(part, "not read, the API server has stopped answering")
            return False
        if self._clock() >= self._end:
            self._problems.add(part, f"not read, {SECONDS:.0f} s were over")
            return False
        return True

    def items(self, kind: str, api_version: str, plural: str, most: int) -> list[dict[str, Any]]:
        """The objects of a kind in the namespace; none where they cannot be read."""
        path = api_path(api_version, plural, namespace=self.namespace)
        items = self._try(
            plural,
            self._right("list", _resource(api_version, plural)),
            lambda: list(itertools.islice(list_items(self._connection, path), most + 1)),
        )
        if items is not None and len(items) > most:
            self._problems.add(plural, f"there are more than {most}; the rest was not looked at")
        # An API server leaves the kind out of the elements of a list.
        return [{**item, "kind": kind} for item in (items or [])[:most]]

    def config_map(self, name: str) -> dict[str, Any] | None:
        """A ConfigMap of the namespace; None where it cannot be read."""

        def read() -> dict[str, Any]:
            path = api_path("v1", "configmaps", namespace=self.namespace, name=name)
            return read_object(self._connection.get(path), path)

        return self._try(f"configuration {name}", self._right("get", "configmaps"), read)

    def log(self, pod: str, container: str, *, previous: bool, since_seconds: int | None) -> bytes | None:
        """The end of a container's log, as far as the API server can say where it is; None where there is none."""
        params: dict[str, str | int] = {
            "container": container,
            "tailLines": _LOG_LINES,
            "limitBytes": _LOG_BYTES,
            **({"previous": "true"} if previous else {}),
            # How a container ended is worth knowing whenever it was.
            **({"sinceSeconds": since_seconds} if since_seconds is not None and not previous else {}),
        }

        def read() -> bytes | None:
            path = api_path("v1", "pods", namespace=self.namespace, name=pod, subresource="log")
            try:
                return self._connection.get(path, params)
            except (BadRequest, NotFound):
                if previous:
                    return None  # most have never been restarted
                raise

        return self._try(f"log of {pod}/{container}", self._right("get", "pods/log"), read)

    def _right(self, verb: str, resource: str) -> Right:
        return Right(verb, resource, f" in namespace {self.namespace}")

    def _try(self, part: str, right: Right, read: Callable[[], T]) -> T | None:
        if not self.may_ask(part):
            return None
        try:
            result = read()
        except KubeError as error:
            # A log may fail for its node's sake; several in a row do not.
            self._silences = self._silences + 1 if isinstance(error, ConnectionFailed) else 0
            self._problems.add_error(part, error, right)
            return None
        except ValueError as error:
            # Whoever writes a SecondaryScheduler may name a ConfigMap `..`.
            self._problems.add(part, f"not read: {error}")
            return None
        self._silences = 0
        return result


def was_cut(log: bytes) -> bool:
    """Whether a log has more than was read of it."""
    return len(log) >= _LOG_BYTES


def _resource(api_version: str, plural: str) -> str:
    group = api_version.rpartition("/")[0]
    return f"{plural}.{group}" if group else plural
