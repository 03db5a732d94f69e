"""`/statusz` and `/flagz`: the forms that clients may ask for."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.observe.endpoints import ProcessStatus, flags_page

STARTED = datetime(2026, 11, 3, 3, 4, 5, tzinfo=UTC)


def test_the_text_has_the_lines_of_upstream() -> None:
    page = ProcessStatus(STARTED, "1.36").page("", STARTED + timedelta(hours=30, minutes=2, seconds=3))
    lines = page.text.splitlines()
    assert lines[1] == "kube-scheduler statusz"
    assert lines[4:6] == ["Started: Tue Nov  3 03:04:05 UTC 2026", "Up: 30 hr 02 min 03 sec"]
    assert [line.partition(":")[0] for line in lines[6:]] == [
        "Go version",
        "Binary version",
        "Emulation version",
        "Paths",
    ]
    assert page.media_type == "text/plain; charset=utf-8"


@pytest.mark.parametrize("media_type", ["application/json", "application/yaml"])
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_a_document_is_of_the_version_that_is_asked_for(media_type: str, version: str) -> None:
    accept = f"application/cbor, {media_type};v={version};g=config.k8s.io;as=Statusz, text/plain"
    page = ProcessStatus(STARTED, "1.36").page(accept, STARTED + timedelta(seconds=7))
    document = json.loads(page.text)
    assert (document["kind"], document["apiVersion"]) == ("Statusz", f"config.k8s.io/{version}")
    assert (document["startTime"], document["uptimeSeconds"]) == ("2026-11-03T03:04:05Z", 7)
    assert page.media_type == f"{media_type};g=config.k8s.io;v={version};as=Statusz"
    assert ("statusz endpoint is deprecated" in page.warning) == (version == "v1alpha1")


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("*/*", 200),
        ("text/html,*/*;q=0.8", 200),
        ("text/*", 200),
        ("application/json", 406),
        ("text/html", 406),
        ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz", 406),
        ("application/json;v=v2;g=config.k8s.io;as=Flagz", 406),
        (";" * 100_000, 406),
    ],
)
def test_other_forms_are_not_acceptable(accept: str, status: int) -> None:
    assert flags_page({"v": "0"}, accept).status == status


def test_flags_are_shown_as_text_only_up_to_1_34() -> None:
    page = flags_page({"v": "2", "config": "c"}, "text/plain", text_only=True)
    lines = page.text.splitlines()
    assert (lines[1], lines[4:]) == ("kube-scheduler flags", ["config=c", "v=2"])
    for accept in ("application/json;v=v1alpha1;g=config.k8s.io;as=Flagz", "text/html"):
        refused = flags_page({}, accept, text_only=True)
        assert (refused.status, refused.text) == (406, "media type not acceptable, must be: text/plain\n")
    assert flags_page({}, "text/plain").text.splitlines()[1] == "kube-scheduler flagz"
