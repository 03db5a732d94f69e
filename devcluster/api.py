"""The few calls to the API server that setting up a cluster needs: plain JSON over one connection pool."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests

from devcluster.errors import ServiceError

_TIMEOUT_SECONDS = 15.0
JsonObject = dict[str, Any]


class ApiClient:
    """Talks as the administrator. One session per thread, since a session may not be shared."""

    def __init__(self, api_server: str, authority: Path, certificate: Path, key: Path) -> None:
        self._api_server = api_server
        self._authority = authority
        self._certificate = (str(certificate), str(key))
        self._local = threading.local()

    def get(self, path: str, **query: str) -> JsonObject:
        """GET a path. Raises ServiceError for any answer but 2xx."""
        return self._call("GET", path, query)

    def apply(self, path: str, body: JsonObject) -> JsonObject:
        """Create the object or bring it to this form by server-side apply; safe to repeat."""
        return self._call(
            "PATCH",
            path,
            {"fieldManager": "secondary-scheduler-cluster", "force": "true"},
            body,
            "application/apply-patch+yaml",
        )

    def create(self, path: str, body: JsonObject) -> JsonObject:
        """POST an object to its collection."""
        return self._call("POST", path, {}, body, "application/json")

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: JsonObject | None = None,
        content_type: str | None = None,
    ) -> JsonObject:
        try:
            response = self._session().request(
                method,
                self._api_server + path,
                params=query,
                json=body,
                headers={"Content-Type": content_type} if content_type else None,
                timeout=_TIMEOUT_SECONDS,
            )
            answer: JsonObject = response.json()
        except (requests.RequestException, ValueError) as error:
            raise ServiceError(
                f"kube-apiserver at {self._api_server} does not answer {method} {path}: {error}"
            ) from error
        if not response.ok:
            raise ServiceError(f"kube-apiserver refused {method} {path}: {answer.get('message', response.status_code)}")
        return answer

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            # Proxy variables of the user's shell are not meant for loopback.
            session.trust_env = False
            session.verify = str(self._authority)
            session.cert = self._certificate
            self._local.session = session
        return session
