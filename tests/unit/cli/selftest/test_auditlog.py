"""What the self-test takes from an API server's audit log, which others write, and what it says of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.selftest import auditlog
from secondary_scheduler.cli.selftest.auditlog import AuditFindings, AuditLog, described, held_rights
from secondary_scheduler.cli.selftest.objects import Names, Right, scaffold

USER = "system:serviceaccount:here:scheduler"
GET_PODS, BIND = Right("get", "", "pods"), Right("create", "", "pods", "binding")
PATCH_STATUS = Right("patch", "scheduling.k8s.io", "podgroups", "status")


def entry(
    verb: str = "get", resource: str = "pods", code: int | None = 200, user: str = USER, **changes: Any
) -> dict[str, Any]:
    resource, _, subresource = resource.partition("/")
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": user, "groups": ["system:authenticated"]},
        "objectRef": {"resource": resource, **({"subresource": subresource} if subresource else {})},
        **({} if code is None else {"responseStatus": {"metadata": {}, "code": code}}),
        **changes,
    }


def line(content: object) -> bytes:
    return json.dumps(content).encode() + b"\n"


def findings_of(directory: Path, *lines: bytes) -> AuditFindings:
    file = directory / "audit.log"
    file.write_bytes(line(entry("delete", "nodes")))
    log, findings = AuditLog(file), AuditFindings()
    with file.open("ab") as added:
        added.write(b"".join(lines))
    log.read(USER, findings)
    return findings


def test_rights_that_were_used_since_the_log_was_opened_are_told_from_those_that_were_not(tmp_path: Path) -> None:
    lines = line(entry("get")), line(entry("create", "pods/binding", 201))
    findings = findings_of(tmp_path, *lines)
    assert findings.unused([GET_PODS, BIND, PATCH_STATUS, Right("delete", "", "nodes")]) == [
        PATCH_STATUS,
        Right("delete", "", "nodes"),
    ]
    assert (findings.requests, findings.unreadable, dict(findings.refused)) == (2, 0, {})


def test_requests_of_others_and_of_no_object_are_left_out(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, line(entry(user=USER + "2")), line(entry(objectRef=None)), line(entry(user="")))
    assert (findings.requests, findings.unreadable) == (0, 0)


def test_a_watch_that_goes_on_is_a_use(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, line(entry("watch", code=200, stage="ResponseStarted")))
    assert findings.unused([Right("watch", "", "pods")]) == []
    assert findings.requests == 0


def test_a_refusal_is_counted_once_however_many_stages_are_logged_and_is_no_use(tmp_path: Path) -> None:
    refused = entry("list", "secrets", 403)
    stages = [{**entry("list", "secrets", None), "stage": "RequestReceived"}, {**refused, "stage": "ResponseStarted"}]
    findings = findings_of(tmp_path, *map(line, [*stages, refused, refused, entry("get")]))
    secrets = Right("list", "", "secrets")
    assert dict(findings.refused) == {secrets: 2}
    assert findings.unused([secrets, GET_PODS]) == [secrets]


@pytest.mark.parametrize(
    "bad",
    [
        b"no JSON",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "\xff", "verb": "get", "user": {}}',
        b"[" * 100_000,
        json.dumps(entry(apiVersion="audit.k8s.io/v1beta1")).encode(),
        json.dumps(entry(kind="EventList")).encode(),
        json.dumps(entry(user=3) | {"user": 3}).encode(),
        json.dumps(entry() | {"objectRef": []}).encode(),
        json.dumps(entry() | {"responseStatus": {"code": "403"}}).encode(),
    ],
)
def test_a_line_that_is_no_event_is_counted_and_the_next_one_is_read(bad: bytes, tmp_path: Path) -> None:
    findings = findings_of(tmp_path, bad + b"\n", line(entry()))
    assert (findings.unreadable, findings.requests) == (1, 1)


def test_a_line_without_end_is_read_up_to_the_limit_and_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditlog, "MAX_LINE", 1000)
    findings = findings_of(tmp_path, b'{"kind": "' + b"x" * 5000 + b"\n", line(entry()))
    assert (findings.unreadable, findings.requests) == (1, 1)


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, line(entry()), line(entry())[:40])
    assert (findings.unreadable, findings.requests) == (0, 1)


def test_kinds_of_refusals_are_bounded(tmp_path: Path) -> None:
    lines = [line(entry("list", f"resource-{number}", 403)) for number in range(1500)]
    assert len(findings_of(tmp_path, *lines).refused) == 1000


def test_more_than_the_limit_is_refused_and_a_rotated_log_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(line(entry()))
    log = AuditLog(file)
    monkeypatch.setattr(auditlog, "MAX_LOG", 100)
    file.write_bytes(line(entry()) * 2)
    with pytest.raises(CommandError, match="written during the run"):
        log.read(USER, AuditFindings())
    other = tmp_path / "new.log"
    other.write_bytes(line(entry()) * 3)
    os.replace(other, file)
    with pytest.raises(CommandError, match="rotated during the run"):
        log.read(USER, AuditFindings())


@pytest.mark.parametrize(("name", "problem"), [("absent", "no such file"), (".", "not a regular file")])
def test_a_log_that_cannot_be_read_is_an_error_of_one_line(name: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=problem):
        AuditLog(tmp_path / name)


def test_reads_are_not_judged_where_the_log_has_none(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, line(entry("create", "pods/binding", 201)))
    assert findings.unused([GET_PODS, BIND, PATCH_STATUS]) == [PATCH_STATUS]
    assert any("leaves these out" in text for text in described(findings, [GET_PODS, BIND]))


def test_unused_rights_are_told_by_group_with_their_verbs(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, line(entry("create", "pods/binding", 201)), line(entry("list", "nodes")))
    held = [Right("get", "", "nodes"), GET_PODS, Right("patch", "", "pods"), BIND, PATCH_STATUS]
    first, *rest = described(findings, held)
    assert "2 requests of the instances; of 5 rights" in first
    assert rest == [
        "not used in the core group: nodes (get); pods (get, patch)",
        "not used in scheduling.k8s.io: podgroups/status (patch)",
    ]


def test_the_rights_of_a_run_are_those_of_its_role_and_cluster_role() -> None:
    rights = held_rights(scaffold(Names("a1b2c3"), ("secondary-scheduler:base",)))
    assert Right("update", "coordination.k8s.io", "leases") in rights
    assert len(rights) == len(set(rights))
