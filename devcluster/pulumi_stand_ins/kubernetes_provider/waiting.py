"""Waiting for an object to be ready or gone, so that it can be broken off and tells the user what it waits for."""

import threading
import time
from collections.abc import Callable, Iterator

from devcluster.pulumi_stand_ins.kubernetes_provider.dynamic_client import DynamicClient, NoMatch, explain
from devcluster.pulumi_stand_ins.kubernetes_provider.objects import (
    ANNOTATION_TIMEOUT,
    ANNOTATION_WAIT_FOR,
    annotation,
    conditions,
    metadata_of,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.readiness import Failed, Ready, State, readiness
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object
from scheduler.kube.client import Forbidden, KubeError, NotFound, Unauthorized

DEFAULT_TIMEOUT_SECONDS = 600.0
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 1.0


class NotReady(Exception):
    """The wait ended without success; `live` is the object as last seen."""

    def __init__(self, reasons: list[str], live: Object) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons
        self.live = live


class UserInterrupt(Exception):
    """The user broke the operation off."""


class Cancellation:
    """Says when the user has interrupted the command."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """End every pause, now and later."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether the user has interrupted."""
        return self._event.is_set()

    def pause(self, seconds: float) -> None:
        """Sleep; raises Interrupted as soon as the user interrupts."""
        if self._event.wait(seconds):
            raise UserInterrupt


class _ApiReader:
    def __init__(self, api: DynamicClient) -> None:
        self._api = api

    def list(self, api_version: str, kind: str, namespace: str, selector: Object) -> list[Object]:
        try:
            return self._api.list(api_version, kind, namespace, selector_text(selector))
        except KubeError:
            return []  # only used to explain: what may not be read is left out

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        try:
            return self._api.get({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace}}, name)
        except KubeError:
            return None

    def is_served(self, api_version: str, kind: str) -> bool:
        try:
            self._api.resource_type(api_version, kind)
        except NoMatch:
            return False
        return True


def selector_text(selector: Object) -> str:
    """A LabelSelector in the form of the API's `labelSelector` parameter."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        if operator in ("In", "NotIn"):
            word = "in" if operator == "In" else "notin"
            parts.append(f"{key} {word} ({','.join(expression.get('values') or ())})")
        else:
            parts.append(key if operator == "Exists" else f"!{key}")
    return ",".join(parts)


def wait_timeout(obj: Object, custom_seconds: float) -> float:
    """How long to wait: the resource's customTimeouts, else its annotation, else ten minutes."""
    if custom_seconds > 0:
        return custom_seconds
    text = annotation(obj, ANNOTATION_TIMEOUT)
    return float(text) if text and text.isdecimal() else DEFAULT_TIMEOUT_SECONDS


def current_state(api: DynamicClient, live: Object) -> State:
    """Whether the object is ready at this moment."""
    return readiness(live, _ApiReader(api))


def wait_until_ready(
    api: DynamicClient,
    live: Object,
    *,
    timeout_seconds: float,
    report_status: Callable[[str], None],
    cancellation: Cancellation,
) -> Object:
    """Wait until the object is ready and return it as last seen.

    `live` is the object as just written. `report_status` gets each new status line for the user's display.
    Raises NotReady when it fails, is not ready after `timeout_seconds`, is deleted meanwhile, or the user interrupts.
    """
    name = str(metadata_of(live).get("name"))
    deadline = time.monotonic() + timeout_seconds
    last_line = last_error = ""
    for pause in _pauses():
        state = current_state(api, live)
        if isinstance(state, Ready):
            return live
        if isinstance(state, Failed):
            raise NotReady(list(state.reasons), live)
        if state.status != last_line:
            last_line = state.status
            report_status(last_line)
        reasons = [*(state.reasons or (state.status,)), *([last_error] if last_error else [])]
        left = deadline - time.monotonic()
        if left <= 0:
            reasons += _other_conditions(live, reasons)
            raise NotReady([f"timed out after {timeout_seconds:g} s", *reasons], live)
        try:
            cancellation.pause(min(pause, left))
            live, last_error = api.get(live, name), ""
        except UserInterrupt:
            raise NotReady(["interrupted by the user", *reasons], live) from None
        except NotFound as error:
            raise NotReady(["it was deleted while waiting for it"], live) from error
        except (Unauthorized, Forbidden) as error:
            raise NotReady([f"cannot be watched: {explain(error)}"], live) from error
        except KubeError as error:
            last_error = explain(error)
    raise AssertionError("the pauses never end")


def wait_until_deleted(
    api: DynamicClient,
    live: Object,
    *,
    timeout_seconds: float,
    report_status: Callable[[str], None],
    cancellation: Cancellation,
) -> None:
    """Wait until the object is gone or recreated (same name, another UID). Otherwise as `wait_until_ready`."""
    uid, name = metadata_of(live).get("uid"), str(metadata_of(live).get("name"))
    deadline = time.monotonic() + timeout_seconds
    last_line = ""
    for pause in _pauses():
        try:
            live = api.get(live, name)
        except NotFound:
            return
        except (Unauthorized, Forbidden) as error:
            raise NotReady([f"cannot be watched: {explain(error)}"], live) from error
        except KubeError as error:
            report_status(explain(error))
        if uid and metadata_of(live).get("uid") != uid:
            return
        held = deletion_status(live)
        if held != last_line:
            last_line = held
            report_status(held)
        left = deadline - time.monotonic()
        if left <= 0:
            raise NotReady([f"timed out after {timeout_seconds:g} s", held], live)
        try:
            cancellation.pause(min(pause, left))
        except UserInterrupt:
            raise NotReady(["interrupted by the user", held], live) from None


def deletion_status(live: Object) -> str:
    """What keeps an object that is being deleted."""
    finalizers = metadata_of(live).get("finalizers") or ()
    status = live.get("status") or {}
    remaining = [
        str(condition.get("message"))
        for condition in status.get("conditions") or ()
        if str(condition.get("type", "")).startswith("Namespace") and condition.get("status") == "True"
    ]
    if remaining:
        return f"Waiting for deletion: {' '.join(remaining)}"
    if finalizers:
        return f"finalizers might be preventing deletion ({', '.join(finalizers)})"
    return "Waiting for deletion"


def _pauses() -> Iterator[float]:
    pause = _FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.5, _MAX_PAUSE_SECONDS)


def _other_conditions(live: Object, reasons: list[str]) -> list[str]:
    """What the conditions say of an object that an annotation has us wait for: another one may tell why."""
    if annotation(live, ANNOTATION_WAIT_FOR) is None:
        return []
    return [
        f'Its condition "{kind}" is "{condition.get("status")}" ({condition.get("reason", "")}: {condition["message"]})'
        for kind, condition in conditions(live).items()
        if condition.get("message") and not any(str(condition["message"]) in reason for reason in reasons)
    ]
