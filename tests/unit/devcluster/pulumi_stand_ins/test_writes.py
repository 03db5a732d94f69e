"""Creation while something is still missing, and updates."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from devcluster.pulumi_stand_ins.kubernetes_provider import writes
from devcluster.pulumi_stand_ins.kubernetes_provider.dynamic_client import NoMatch
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object, parse
from devcluster.pulumi_stand_ins.kubernetes_provider.waiting import (
    Cancellation,
    UserInterrupt,
    selector_text,
    wait_timeout,
)
from scheduler.kube.client import ApiError, ConnectionFailed, ConnectionLost
from scheduler.kube.client.errors import api_error


def refusal(status: int, **fields: Any) -> ApiError:
    return api_error("POST", "/things", status, json.dumps(fields).encode())


THING: Object = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": 1, "b": 2}}


class Pauses(Cancellation):
    def __init__(self) -> None:
        super().__init__()
        self.taken: list[float] = []

    def pause(self, seconds: float) -> None:
        if self.cancelled:
            raise UserInterrupt
        self.taken.append(seconds)


class Server:
    """Answers each request with the next of `answers`: an object, or what to raise."""

    def __init__(self, *answers: Any, live: Object | None = None) -> None:
        self.answers = list(answers)
        self.live = live
        self.sent: list[tuple[str, Any, dict[str, str]]] = []

    def request(self, method: str, path: str, *, body: Any = None, query: Any = None, **_: Any) -> Object:
        self.sent.append((method, body, query or {}))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        result: Object = answer
        return result

    def get(self, obj: Object, name: str) -> Object:
        if self.live is None:
            raise refusal(404, message="not found")
        return self.live

    def path(self, obj: Object, name: str | None = None) -> str:
        return "/things" + (f"/{name}" if name else "")

    def forget_types(self) -> None:
        pass


def ignore_text(_: str) -> None:
    pass


def create(server: Server, pauses: Pauses, report_status: Callable[[str], None] = ignore_text) -> Object:
    return writes.ObjectWriter(server, pauses).create(THING, report_status=report_status, warn=ignore_text)  # type: ignore[arg-type]


def test_creation_waits_for_kind_and_namespace_with_backoff_and_reports_it() -> None:
    lines: list[str] = []
    missing = [NoMatch("example.com/v1", "Thing"), refusal(404, message='namespaces "n" not found')]
    pauses = Pauses()
    assert create(Server(*missing, THING), pauses, lines.append) == THING
    assert pauses.taken == [1, 2]
    assert lines == [
        "Retry #0; creation failed: no matches for kind 'Thing' in version 'example.com/v1'",
        'Retry #1; creation failed: namespaces "n" not found',
    ]


def test_creation_gives_up_after_five_retries() -> None:
    pauses = Pauses()
    with pytest.raises(NoMatch):
        create(Server(*[NoMatch("example.com/v1", "Thing")] * 6), pauses)
    assert pauses.taken == [1, 2, 4, 8, 16]


def test_another_refusal_is_not_retried() -> None:
    pauses = Pauses()
    with pytest.raises(ApiError):
        create(Server(refusal(409, reason="AlreadyExists")), pauses)
    assert pauses.taken == []


def test_an_interrupt_ends_the_retries() -> None:
    pauses = Pauses()
    pauses.cancel()
    with pytest.raises(UserInterrupt):
        create(Server(NoMatch("example.com/v1", "Thing")), pauses)


def created(manager: str = "pulumi-kubernetes", ago: timedelta = timedelta()) -> Object:
    stamp = (datetime.now(UTC) - ago).isoformat(timespec="seconds")
    entries = [{"manager": manager, "operation": "Update"}]
    return {**THING, "metadata": {"name": "t", "managedFields": entries, "creationTimestamp": stamp}}


def test_creation_is_a_post_in_the_official_providers_name() -> None:
    server = Server(THING)
    create(server, Pauses())
    assert [(method, query["fieldManager"]) for method, _, query in server.sent] == [("POST", "pulumi-kubernetes")]


def test_after_a_lost_answer_only_an_object_that_was_made_since_counts_as_ours() -> None:
    assert create(Server(ConnectionLost("timed out"), live=created()), Pauses())["metadata"]["name"] == "t"
    for foreign in (created("kubectl-create"), created(ago=timedelta(hours=1))):
        with pytest.raises(ConnectionLost):
            create(Server(ConnectionLost("timed out"), live=foreign), Pauses())
    with pytest.raises(ConnectionLost):
        create(Server(ConnectionLost("timed out")), Pauses())


def test_a_request_that_was_never_sent_is_not_looked_up() -> None:
    with pytest.raises(ConnectionFailed):
        create(Server(ConnectionFailed("refused"), live=created()), Pauses())


def update(server: Server, ignore: str | None = None, dry_run: bool = False) -> Object:
    paths = [parse(ignore)] if ignore else []
    writer = writes.ObjectWriter(server, Pauses())  # type: ignore[arg-type]
    return writer.update(THING, "ours", force=False, ignore=paths, dry_run=dry_run, warn=ignore_text)


def live(*entries: Object) -> Object:
    metadata = {"name": "t", "resourceVersion": "7", "managedFields": list(entries)}
    return {**THING, "metadata": metadata, "spec": {"a": 9, "b": 2}}


def owner(manager: str, *fields: str, operation: str = "Apply") -> Object:
    owned = {"f:spec": {f"f:{field}": {} for field in fields}}
    return {"manager": manager, "operation": operation, "fieldsV1": owned}


def test_the_first_update_takes_over_what_was_created() -> None:
    server = Server(live(), THING, live=live(owner("ours", "a", operation="Update")))
    update(server)
    assert [method for method, _, _ in server.sent] == ["PATCH", "PATCH"]
    assert [step["path"] for step in server.sent[0][1]] == ["/metadata/managedFields", "/metadata/resourceVersion"]
    assert server.sent[1][2]["force"] == "false"


def test_an_ignored_field_is_left_to_its_owner_or_kept_as_it_is() -> None:
    server = Server(THING, live=live(owner("ours", "b"), owner("autoscaler", "a")))
    update(server, "spec.a")
    assert server.sent[0][1]["spec"] == {"b": 2}
    server = Server(THING, live=live(owner("ours", "a", "b")))
    update(server, "spec.a")
    assert server.sent[0][1]["spec"] == {"a": 9, "b": 2}


def conflict(manager: str) -> ApiError:
    message = f'Apply failed with 1 conflict: conflict with "{manager}" using v1: .spec.a'
    return refusal(409, reason="Conflict", message=message)


def test_a_preview_of_an_object_that_was_never_updated_is_forced() -> None:
    server = Server(THING, live=live(owner("pulumi-kubernetes", "a", operation="Update"), owner("Mozilla", "b")))
    update(server, dry_run=True)
    assert [(query["force"], query["dryRun"]) for _, _, query in server.sent] == [("true", "All")]


@pytest.mark.parametrize("manager", ["kubectl-patch", "Mozilla"])
def test_a_preview_of_an_updated_object_takes_nothing_over(manager: str) -> None:
    server = Server(conflict(manager), live=live(owner("ours", "a"), owner(manager, "a", operation="Update")))
    with pytest.raises(writes.FieldConflict) as refused:
        update(server, dry_run=True)
    assert [query["force"] for _, _, query in server.sent] == ["false"]
    assert "server-side apply field conflict detected, see https://" in refused.value.message
    assert f'"ours" had an apply conflict: Apply failed with 1 conflict: conflict with "{manager}"' in (
        refused.value.message
    )


def test_a_crd_is_replaced_with_its_finalizers_kept() -> None:
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"}}
    server = Server(crd, live={**crd, "metadata": {"name": "c", "resourceVersion": "3", "finalizers": ["cleanup"]}})
    writer = writes.ObjectWriter(server, Pauses())  # type: ignore[arg-type]
    writer.update(crd, "ours", force=False, ignore=[], dry_run=False, warn=ignore_text)
    method, body, _ = server.sent[0]
    assert method == "PUT"
    assert body["metadata"] == {"name": "c", "resourceVersion": "3", "finalizers": ["cleanup"]}


def test_a_preview_of_a_replacement_is_tried_beside_the_object_in_the_way() -> None:
    refused = refusal(422, message="data: Forbidden: field is immutable when `immutable` is set")
    server = Server(refused, {**THING, "metadata": {"name": "t-preview"}})
    previewed = writes.ObjectWriter(server, Pauses()).preview_create(THING, "ours", warn=ignore_text)  # type: ignore[arg-type]
    assert previewed["metadata"]["name"] == "t"


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({"matchLabels": {"a": "b", "c": "d"}}, "a=b,c=d"),
        ({"matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}]}, "k in (x,y)"),
        ({"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["x"]}]}, "k notin (x)"),
        ({"matchExpressions": [{"key": "k", "operator": "Exists"}]}, "k"),
        ({"matchExpressions": [{"key": "k", "operator": "DoesNotExist"}]}, "!k"),
    ],
)
def test_selectors_in_the_apis_form(selector: Object, text: str) -> None:
    assert selector_text(selector) == text


def test_timeouts_custom_before_annotation_before_ten_minutes() -> None:
    annotated = {"metadata": {"annotations": {"pulumi.com/timeoutSeconds": "30"}}}
    assert wait_timeout(annotated, 5) == 5
    assert wait_timeout(annotated, 0) == 30
    assert wait_timeout({"metadata": {}}, 0) == 600
