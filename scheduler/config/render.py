"""Rendering a configuration: canonical text for the ConfigMap, and the hash that identifies it."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.config.document import plain_scalar, read_document

_PLAIN = re.compile(r"[A-Za-z0-9/_.][-A-Za-z0-9/_.+$()\[\]]*(:[-A-Za-z0-9/_.+]+)*")
_UNPRINTABLE = re.compile("[\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff\\ufeff\\ufffe\\uffff]")
"""Characters that JSON does not escape, but that YAML does not allow or treats as line breaks."""
_FIRST = ("apiVersion", "kind", "name", "schedulerName")
"""Keys that come first; all others follow in alphabetical order."""


SECRET = "[secret]"  # noqa: S105  (what is shown instead of one)
_SECRET_BYTES = base64.b64encode(SECRET.encode()).decode()
_SECRET_KEY = re.compile(r"(token|password|secret|bearer|credential|keyData)(?!\w*(File|Seconds)$)", re.IGNORECASE)


def names_secret(key: str) -> bool:
    """Return whether a key of a configuration says that its value is a secret."""
    return _SECRET_KEY.search(key) is not None


def redacted(data: Any, *, loadable: bool = False) -> Any:
    """Return data of a configuration with `SECRET` in place of every text whose key names a secret.

    What is `loadable` is still a valid configuration: in it, bytes are masked as bytes.
    """
    if isinstance(data, Mapping):
        return {
            key: _mask_of(key, loadable=loadable) if _is_secret(key, value) else redacted(value, loadable=loadable)
            for key, value in data.items()
        }
    return [redacted(item, loadable=loadable) for item in data] if isinstance(data, list | tuple) else data


def _mask_of(key: str, *, loadable: bool) -> str:
    return _SECRET_BYTES if loadable and key.endswith("Data") else SECRET


def _is_secret(key: Any, value: Any) -> bool:
    return isinstance(value, str) and value != "" and names_secret(str(key))


def configuration_hash(text: str) -> str:
    """Return the first 16 hex digits of the sha256 of the file's data; comments, style and key order do not matter.

    Raises:
        ConfigurationError: the text is not YAML.
    """
    return hash_of(read_document(text, "configuration").data)


def hash_of(data: Any) -> str:
    """Return the hash of parsed data."""
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def render(data: Mapping[str, Any]) -> str:
    """Return YAML text of a configuration's data in a stable order, byte for byte the same for equal data.

    Text that some YAML reader could read as something else (`yes`, `012`, an empty string) is quoted as in JSON.
    """
    return "\n".join(_lines(data, "")) + "\n" if data else "{}\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=lambda key: (_FIRST.index(key) if key in _FIRST else len(_FIRST), key)):
            yield from _entry(f"{indent}{_text(key)}:", value[key], indent)
    else:
        for item in value:
            if isinstance(item, Mapping) and item:
                first, *rest = _lines(item, indent + "  ")
                yield f"{indent}- {first.lstrip()}"
                yield from rest
            else:
                yield from _entry(f"{indent}-", item, indent)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield head
        yield from _lines(value, indent + "  ")
    elif isinstance(value, list | tuple) and value and not head.endswith("-"):
        yield head
        yield from _lines(value, indent)
    else:
        yield f"{head} {_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and plain_scalar(value) == value:
        return value
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))
