"""Client of the load generator, for the command line and for tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import requests

from devcluster.errors import ServiceError, SpecError

_TIMEOUT_SECONDS = 5.0


def fraction(quantity: str, text: str) -> float:
    """A share written as `85%` or `0.85`, as a fraction. Raises SpecError for anything else and outside 0 to 1."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text.strip())
    value = float(match.group(1)) / (100 if match.group(2) else 1) if match else -1.0
    if not 0 <= value <= 1:
        raise SpecError(f"{quantity} {text!r}: write a share between 0% and 100%, such as 85% or 0.85")
    return value


class LoadClient:
    """Reads and sets the nodes' loads, as fractions of 1."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        # Proxy variables of the user's shell are not meant for loopback.
        self._session.trust_env = False

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Every node's `cpus`, `memoryBytes`, `cpu` and `memory`. Raises ServiceError."""
        return self._call("GET", "/nodes")

    def change(self, node: str, change: Mapping[str, float]) -> dict[str, Any]:
        """Set `cpu`, `memory` or both; returns the node as it is then. Raises ServiceError."""
        return self._call("PUT", f"/nodes/{quote(node)}", dict(change))

    def _call(self, method: str, path: str, body: dict[str, float] | None = None) -> dict[str, Any]:
        try:
            response = self._session.request(method, self._url + path, json=body, timeout=_TIMEOUT_SECONDS)
            answer: dict[str, Any] = response.json()
        except (requests.RequestException, ValueError) as error:
            raise ServiceError(f"the load generator at {self._url} does not answer: is the cluster running?") from error
        if not response.ok:
            raise ServiceError(
                f"the load generator refused {method} {path}: {answer.get('error', response.status_code)}"
            )
        return answer
