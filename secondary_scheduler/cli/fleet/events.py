"""The engine's events, reduced to what is reported."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

from secondary_scheduler.cli.fleet.results import ResourceChange

_COLOURS = re.compile(r"<\{%[^%]*%\}>|\x1b\[[0-9;]*[A-Za-z]")
_NO_CHANGE = frozenset({"same", "read", "refresh", "read-replacement", "discard", "discard-replaced"})
# Steps of a replacement, which the engine also reports as `replace`.
_PARTS = {"create-replacement": "replace", "delete-replaced": "replace", "import-replacement": "replace"}
_GENERIC = re.compile(r"^(preview|update|refresh|resource|destroy)( failed| is failed|d? with errors)\b", re.IGNORECASE)
# Noise: how a plugin was found, and that a program exited after it reported its error.
_NOISE = re.compile(r"^using \S+ from \$PATH at |^an unhandled error occurred: Program exited with non-zero exit code")
_STACK_TYPE = "pulumi:pulumi:Stack"
_MAX_MESSAGES = 500


class EventCollector:
    """Gathers the events of one operation. Called from the threads that receive them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resources: dict[str, ResourceChange] = {}
        self._errors: list[str] = []
        self._messages: list[str] = []
        self._counts: dict[str, int] = {}
        self.began = False
        """Whether the engine has started its work: from then on the stack is locked by it."""

    def event(self, event: Any) -> None:
        """Take one `pulumi.automation.EngineEvent`."""
        with self._lock:
            if event.prelude_event is not None:
                self.began = True
            if event.resource_pre_event is not None:
                self._resource(event.resource_pre_event.metadata)
            if event.res_outputs_event is not None:
                self._resource(event.res_outputs_event.metadata)
            if event.res_op_failed_event is not None:
                self._resource(event.res_op_failed_event.metadata)
            if event.diagnostic_event is not None and not event.diagnostic_event.ephemeral:
                self._diagnostic(event.diagnostic_event)
            if event.policy_event is not None:
                policy = event.policy_event
                self._say(f"policy {policy.policy_name} ({policy.enforcement_level})", policy.message)
            if event.summary_event is not None:
                self._counts = change_counts(event.summary_event.resource_changes)

    @property
    def resources(self) -> tuple[ResourceChange, ...]:
        """Every resource that changed or would, in the order of the engine."""
        with self._lock:
            return tuple(self._resources.values())

    @property
    def messages(self) -> tuple[str, ...]:
        """Lines of the diagnostics."""
        with self._lock:
            return tuple(self._messages)

    @property
    def counts(self) -> Mapping[str, int]:
        """Resources by operation; from the engine's summary, or counted where it did not come to one."""
        with self._lock:
            if self._counts:
                return dict(self._counts)
            counted: dict[str, int] = {}
            for resource in self._resources.values():
                counted[resource.operation] = counted.get(resource.operation, 0) + 1
            return counted

    def failure(self) -> str:
        """The first error that is more than a generic failure; empty if there is none."""
        with self._lock:
            telling = [error for error in self._errors if not _GENERIC.match(error)]
            return telling[0] if telling else ""

    def _resource(self, metadata: Any) -> None:
        operation = _PARTS.get(str(metadata.op.value), str(metadata.op.value))
        kind, name = _identity(metadata.urn)
        if operation in _NO_CHANGE or kind in ("", _STACK_TYPE):
            return
        resource = self._resources.get(metadata.urn)
        properties = tuple(metadata.diffs or metadata.keys or ())
        if resource is not None:
            operation = "replace" if "replace" in (resource.operation, operation) else operation
            properties = properties or resource.properties
        self._resources[metadata.urn] = ResourceChange(operation, kind, name, properties)

    def _diagnostic(self, event: Any) -> None:
        message = plain_text(event.message)
        if not message or event.severity == "debug" or _NOISE.match(message):
            return
        if event.severity == "error":
            self._errors.append(message)
        subject = _identity(event.urn)[1] if event.urn else ""
        severity = "" if event.severity.startswith("info") else f"{event.severity}: "
        self._say(subject, severity + message)

    def _say(self, subject: str, message: str) -> None:
        if len(self._messages) < _MAX_MESSAGES:
            prefix = f"{subject}: " if subject else ""
            self._messages += [line for line in f"{prefix}{plain_text(message)}".splitlines() if line.strip()]


def change_counts(counts: Mapping[Any, int] | None) -> dict[str, int]:
    """The engine's counts without what does not change; parts of a replacement count as one."""
    result: dict[str, int] = {}
    for operation, count in (counts or {}).items():
        name = str(getattr(operation, "value", operation))
        if name in _NO_CHANGE or not count:
            continue
        name = _PARTS.get(name, name)
        result[name] = max(result.get(name, 0), count) if name == "replace" else count
    return result


def plain_text(text: str) -> str:
    """Text without colours and control characters; its lines stay."""
    lines = _COLOURS.sub("", text).splitlines()
    cleaned = ("".join(c if c.isprintable() else " " for c in line).rstrip() for line in lines)
    return "\n".join(cleaned).strip("\n")


def one_line(text: str, longest: int = 500) -> str:
    """Text on one line, cut where it is too long."""
    joined = " ".join(plain_text(text).split())
    return joined if len(joined) <= longest else joined[: longest - 1].rstrip() + "…"


def _identity(urn: str) -> tuple[str, str]:
    """Type and name of a resource; `urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME`."""
    parts = urn.split("::", 3)
    if len(parts) < 4:
        return "", urn
    return parts[2].rpartition("$")[2], parts[3]
