"""The annotation pulumi.com/waitFor."""

from __future__ import annotations

import pytest

from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object
from devcluster.pulumi_stand_ins.kubernetes_provider.wait_for import ConditionExpectation, WaitForError, parse

OBJECT: Object = {
    "metadata": {"name": "x", "generation": 2, "labels": {"a.b/c": "d"}},
    "status": {
        "phase": "Running",
        "ready": True,
        "count": 3,
        "nothing": None,
        "list": ["a", "b"],
        "conditions": [
            {"type": "Available", "status": "True", "observedGeneration": 2},
            {"type": "Old", "status": "True", "observedGeneration": 1},
            {"type": "Degraded", "status": "False", "reason": "AsExpected", "message": "all well"},
        ],
    },
}


@pytest.mark.parametrize(
    ("annotation", "met"),
    [
        ("condition=Available", True),
        ("condition=available", False),
        ("condition=Available=true", True),
        ("condition=Available=False", False),
        ("condition=Degraded=False", True),
        ("condition=Missing", False),
        ("condition=Old", False),
        ("jsonpath={.status.phase}", True),
        ("jsonpath={.status.phase}=Running", True),
        ("jsonpath={.status.phase}=Pending", False),
        ("jsonpath={ .status.phase }=Running", True),
        ("jsonpath={$.status.phase}=Running", True),
        ("jsonpath={.status.ready}=true", True),
        ("jsonpath={.status.ready}=True", True),
        ("jsonpath={.status.count}=3", True),
        ("jsonpath={.status.nothing}", True),
        ("jsonpath={.status.absent}", False),
        ("jsonpath={.status.list[0]}=a", True),
        ("jsonpath={.status.list[-1]}=b", True),
        ("jsonpath={.status.list[5]}", False),
        ("jsonpath={.status.list[*]}=b", True),
        ("jsonpath={.status.list[*]}=c", False),
        ("jsonpath={.metadata.labels['a.b/c']}=d", True),
        ('jsonpath={.status.conditions[?(@.type=="Degraded")].status}=False', True),
        ('jsonpath={.status.conditions[?(@.type=="Absent")].status}', False),
        ('["condition=Available", "jsonpath={.status.count}=3"]', True),
        ('["condition=Available", "jsonpath={.status.count}=4"]', False),
    ],
)
def test_expectations(annotation: str, met: bool) -> None:
    pending_reason = [text for wanted in parse(annotation) if (text := wanted.pending_reason(OBJECT)) is not None]
    assert (pending_reason == []) is met


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        ("", "must start with condition= or jsonpath="),
        ("Available", "must start with condition= or jsonpath="),
        ("{.status}", "must start with condition= or jsonpath="),
        ("condition=", "names no condition"),
        ("jsonpath='{.status.phase}'=Running", "omit shell quotes"),
        ("jsonpath={.status.phase}=", "requires a value"),
        ("jsonpath=.status.phase", "the form is"),
        ('jsonpath={.status.conditions[?(@.type=="A"||@.type=="B")].status}=True', "cannot read the path"),
        ('["condition=A"', "not valid JSON"),
        ("[]", "must be a JSON array of strings"),
        ("[1]", "must be a JSON array of strings"),
        ('["condition=A", "B"]', "must start with"),
    ],
)
def test_what_cannot_be_read_is_explained(annotation: str, reason: str) -> None:
    with pytest.raises(WaitForError, match=reason.replace("[", r"\[")):
        parse(annotation)


def test_an_unmet_condition_says_what_it_is_instead() -> None:
    assert ConditionExpectation("Degraded").pending_reason(OBJECT) == (
        'Waiting for condition "Degraded" to be "True"; it is "False" (AsExpected: all well)'
    )


def test_a_condition_of_an_older_generation_does_not_count() -> None:
    assert "generation 1 of 2" in str(ConditionExpectation("Old").pending_reason(OBJECT))
    by_status = {
        "metadata": {"generation": 5},
        "status": {"observedGeneration": 4, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert "generation 4 of 5" in str(ConditionExpectation("Ready").pending_reason(by_status))


def test_an_object_without_status_is_waited_for() -> None:
    for annotation in ("condition=Ready", "jsonpath={.status.phase}"):
        assert parse(annotation)[0].pending_reason({"metadata": {}}) is not None
        assert parse(annotation)[0].pending_reason({"metadata": {}, "status": {"conditions": None}}) is not None
