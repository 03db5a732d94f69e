"""Redaction: no secret leaves the command, whatever put it into a message."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

MASK = "[secret]"
_MIN_LENGTH = 4
"""A shorter value would mask half of every text; the engine has the same limit for the same reason."""
_CREDENTIALS = ("token", "password", "client-key-data", "client-certificate-data", "certificate-authority-data")


class Redactor:
    """Replaces known secrets, as they are and in base64."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms: set[str] = set()
        for secret in secrets:
            for value in {secret, secret.strip(), *(line.strip() for line in secret.splitlines())}:
                if len(value) >= _MIN_LENGTH:
                    forms |= {value, json.dumps(value)[1:-1], base64.b64encode(value.encode()).decode()}
        # Longest first: a secret may be part of another one.
        self._forms = sorted(forms, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without any of them."""
        for form in self._forms:
            text = text.replace(form, MASK)
        return text

    def data(self, value: Any) -> Any:
        """JSON-like data without any of them."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return value


def secret_parts(value: str) -> list[str]:
    """What is secret in a secret value: of a kubeconfig its credentials, of JSON every text, else all of it."""
    try:
        document = yaml.safe_load(value)
    except yaml.YAMLError:
        return [value]
    if isinstance(document, Mapping) and document.get("kind") == "Config":
        return [text for key in _CREDENTIALS for text in _texts_under(document, key)]
    if isinstance(document, Mapping | list):
        return _texts(document)
    return [value]


def _texts(value: object) -> list[str]:
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [str(value)]


def _texts_under(value: object, key: str) -> list[str]:
    if isinstance(value, Mapping):
        direct = [str(value[key])] if isinstance(value.get(key), str) else []
        return direct + [text for item in value.values() for text in _texts_under(item, key)]
    if isinstance(value, list):
        return [text for item in value for text in _texts_under(item, key)]
    return []
