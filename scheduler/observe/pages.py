"""`/statusz` and `/flagz` as kube-scheduler serves them from 1.36 on (KEP 4827, KEP 4828): text for people, and a
document in JSON or YAML for who asks for it by group, version and kind in the Accept header."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import Struct

from scheduler import __version__

_COMPONENT: Final = "kube-scheduler"
_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
_GROUP: Final = "config.k8s.io"
_DEPRECATED: Final = "v1alpha1"
_VERSIONS: Final = (_DEPRECATED, "v1beta1")
_DOCUMENTS: Final = ("application/json", "application/yaml")
_MAX_ACCEPT: Final = 2000
_NOT_ACCEPTABLE: Final = "only the following media types are accepted: application/json, application/yaml, text/plain"
_TEXT_ONLY: Final = "media type not acceptable, must be: text/plain"
_PATHS: Final = ("/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz")
"""What upstream names, whatever else it serves."""


class DebugPage(NamedTuple):
    """An answer: status, media type with its parameters, text, and the header Warning, if any."""

    status: int
    media_type: str
    text: str
    warning: str = ""


class ProcessStatus(Struct, frozen=True):
    """What `/statusz` shows.

    Attributes:
        started: when the process was, in UTC.
        behaves_as: the version of kube-scheduler, such as `1.36`.
    """

    started: datetime
    behaves_as: str

    def page(self, accept: str, now: datetime) -> DebugPage:
        """Return `/statusz` in the form that the client accepts; `now` is in UTC."""
        seconds = max(int((now - self.started).total_seconds()), 0)
        versions = (f"python{platform.python_version()}", f"{self.behaves_as}.0+secondary-scheduler-{__version__}")
        uptime = f"{seconds // 3600} hr {seconds // 60 % 60:02d} min {seconds % 60:02d} sec"
        lines = {
            "Started": self.started.strftime("%a %b %e %H:%M:%S UTC %Y"),
            "Up": uptime,
            "Go version": versions[0],
            "Binary version": versions[1],
            "Emulation version": self.behaves_as,
            "Paths": " ".join(_PATHS),
        }
        document = {
            "startTime": self.started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "uptimeSeconds": seconds,
            "goVersion": versions[0],
            "binaryVersion": versions[1],
            "emulationVersion": self.behaves_as,
            "paths": list(_PATHS),
        }
        return _page("Statusz", accept, [f"{name}: {value}" for name, value in lines.items()], document)


def flags_page(flags: Mapping[str, str], accept: str, *, text_only: bool = False) -> DebugPage:
    """Return `/flagz` in the form that the client accepts: values by the names of the flags.

    `text_only`: as up to 1.34, where it has another heading and no other form. Upstream's delimiter is chosen at random
    there, so that nobody reads it by program; ours is always the same.
    """
    ordered = dict(sorted(flags.items()))
    if text_only:
        if _choose("", accept) is None:
            return DebugPage(406, "text/plain; charset=utf-8", f"{_TEXT_ONLY}\n")
        lines = "".join(f"{name}={value}\n" for name, value in ordered.items())
        return DebugPage(200, "text/plain; charset=utf-8", f"\n{_COMPONENT} flags\n{_WARNING}\n\n{lines}")
    return _page("Flagz", accept, [f"{name}={value}" for name, value in ordered.items()], {"flags": ordered})


def _page(kind: str, accept: str, lines: list[str], document: Mapping[str, Any]) -> DebugPage:
    chosen = _choose(kind, accept)
    if chosen is None:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": _NOT_ACCEPTABLE,
            "reason": "NotAcceptable",
            "code": 406,
        }
        return DebugPage(406, "application/json", json.dumps(status, indent=2))
    media_type, version = chosen
    if media_type == "text/plain":
        text = "\n".join(("", f"{_COMPONENT} {kind.lower()}", _WARNING, "", *lines, ""))
        return DebugPage(200, "text/plain; charset=utf-8", text)
    whole = {"kind": kind, "apiVersion": f"{_GROUP}/{version}", "metadata": {"name": _COMPONENT}, **document}
    # JSON is YAML, too.
    warning = f"This version of the {kind.lower()} endpoint is deprecated. Please use a newer version."
    return DebugPage(
        200,
        f"{media_type};g={_GROUP};v={version};as={kind}",
        json.dumps(whole, indent=2),
        f'299 - "{warning}"' if version == _DEPRECATED else "",
    )


def _choose(kind: str, accept: str) -> tuple[str, str] | None:
    """Return the first media type and version of an Accept header that is served; None for none."""
    if not accept.strip():
        return "text/plain", ""
    for clause in accept[:_MAX_ACCEPT].split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        if media_type in ("text/plain", "text/*", "*/*"):
            return "text/plain", ""
        wanted = (parameters.get("g"), parameters.get("as"))
        if media_type in _DOCUMENTS and wanted == (_GROUP, kind) and parameters.get("v") in _VERSIONS:
            return media_type, parameters["v"]
    return None
