"""A fake API server for commands that list objects: it answers from a dictionary, page by page, and refuses what it is
told to."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from scheduler.kube.client.errors import api_error

VERSION = {"gitVersion": "v1.34.4"}


class FakeConnection:
    """Stands in for a SyncConnection.

    Args:
        answers: by path; a list is a list's items, anything else an object.
        refused: paths that this caller may not read.
        page: items of a page at most.
    """

    def __init__(self, answers: Mapping[str, Any], refused: Collection[str] = (), page: int = 500) -> None:
        self._answers = {"/version": VERSION, **answers}
        self._refused = refused
        self._page = page
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> bytes:
        self.asked.append((path, dict(params or {})))
        if path in self._refused:
            raise api_error("GET", path, 403, b"")
        if path not in self._answers:
            raise api_error("GET", path, 404, b"")
        answer = self._answers[path]
        if not isinstance(answer, list):
            return json.dumps(answer).encode()
        start = int((params or {}).get("continue", 0))
        end = start + min(self._page, int((params or {}).get("limit", self._page)))
        more = {"continue": str(end)} if end < len(answer) else {}
        return json.dumps({"metadata": more, "items": answer[start:end]}).encode()
