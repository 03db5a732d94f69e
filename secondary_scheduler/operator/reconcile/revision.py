"""Revisions: what a canary can prove about the scheduler, and what the objects record about each.

All of it stands in annotations, since the operator keeps nothing: on the Deployment the revision it runs and since
when; on the immutable copy of a configuration whether a canary proved it, and which revision ran with it.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypeVar

from scheduler.config import Flavour, image_flavour
from secondary_scheduler.operator.reconcile import names
from secondary_scheduler.operator.reconcile.model import Json, digest

_KEY_LENGTH = 16
_T = TypeVar("_T")


@dataclass(frozen=True)
class Revision:
    """A configuration with the image that runs it and how that is started.

    What else is in the pod (node selector, resources, log level, certificates) follows the spec at any time: a
    canary proves nothing about it.
    """

    configuration: str
    """Hash of the configuration."""
    image: str
    command: tuple[str, ...] = ()
    lease_timings: tuple[str, str, str] = ("15s", "10s", "2s")
    """leaseDuration, renewDeadline, retryPeriod."""
    args: tuple[str, ...] = ()
    """The last arguments of the command line."""
    env: str = "[]"
    """The environment as JSON."""
    flavour_name: str = ""
    """The image's flavour, where its name does not say it or is misleading."""

    @property
    def key(self) -> str:
        """Names the revision; 16 hex digits."""
        return digest(_written(asdict(self)))[:_KEY_LENGTH]

    @property
    def flavour(self) -> Flavour:
        """What the image is."""
        return image_flavour(self.image, self.flavour_name)

    def __str__(self) -> str:
        return f"configuration {self.configuration} with image {self.image}"


@dataclass(frozen=True)
class Run:
    """A revision and a time: since when a Deployment has it, or when it was found to run as it should."""

    revision: Revision
    at: datetime


@dataclass(frozen=True)
class RevisionTrial:
    """How the last attempt at a revision ended."""

    key: str
    at: datetime
    generation: int
    """The instance's, of that time: an edit of its spec is worth another attempt."""
    reason: str = ""
    """Why it was refused; empty if it was proven."""
    message: str = ""

    @property
    def proven(self) -> bool:
        """Whether a canary ran it."""
        return not self.reason


def read_run(obj: Mapping[str, Any] | None, annotation: str) -> Run | None:
    """The Run in an annotation of an object; None if there is none that can be read."""
    return _read_annotation(obj, annotation, _run)


def read_trial(obj: Mapping[str, Any] | None) -> RevisionTrial | None:
    """The Trial on the copy of a configuration; None if there is none that can be read."""
    return _read_annotation(obj, names.ANNOTATION_TRIAL, _trial)


def annotation_value(value: Run | RevisionTrial) -> str:
    """The text that the two above read."""
    fields = asdict(value)
    if "revision" in fields:
        fields["revision"] = _written(fields["revision"])
    return json.dumps(fields, sort_keys=True, default=datetime.isoformat)


def newest(runs: Iterable[Run | None]) -> Run | None:
    """The one that was seen last."""
    return max((run for run in runs if run is not None), key=lambda run: run.at, default=None)


def _written(revision: Json) -> Json:
    """Without what says nothing: a field that is new must not make another revision of what runs already."""
    return {name: value for name, value in revision.items() if name != "flavour_name" or value}


def _read_annotation(obj: Mapping[str, Any] | None, annotation: str, read: Callable[[Json], _T]) -> _T | None:
    text = ((obj or {}).get("metadata", {}).get("annotations") or {}).get(annotation)
    try:
        return read(json.loads(text)) if text else None
    except (ValueError, TypeError, KeyError, AttributeError):
        # Somebody else wrote it.
        return None


def _run(value: Json) -> Run:
    fields = dict(value["revision"])
    lists = {name: tuple(map(str, fields[name])) for name in ("command", "lease_timings", "args")}
    return Run(Revision(**{**fields, **lists}), _time(value["at"]))


def _trial(value: Json) -> RevisionTrial:
    return RevisionTrial(**{**value, "at": _time(value["at"]), "generation": int(value["generation"])})


def _time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    return at
