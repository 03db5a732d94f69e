"""The answers of a scheduler: those of the version before are read, and no key of theirs is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.answers import API_VERSION, DecisionList, Document, NodeLoadReport, NodeReport, QueueReport
from tests.support.documents import lost

FORMER: dict[str, Any] = json.loads(Path("tests/data/answers-0.1.0.json").read_text(encoding="utf-8"))
"""What 0.1.0 answered, by path."""
FORMS: dict[str, type[Document]] = {
    "/debug/decisions": DecisionList,
    "/debug/decisions/namespaces/default?pod=big&node=small": DecisionList,
    "/debug/queue": QueueReport,
    "/debug/nodes": NodeLoadReport,
    "/debug/nodes/small": NodeReport,
    "/debug/nodes/small/decisions": DecisionList,
}


@pytest.mark.parametrize("path", FORMER)
def test_an_answer_of_the_version_before_is_read_and_shown_with_all_its_keys(path: str) -> None:
    read = msgspec.json.decode(json.dumps(FORMER[path]), type=FORMS[path])
    assert lost(FORMER[path], json.loads(msgspec.json.encode(read))) == []
    assert read.scheduler_version == ""


def test_an_answer_says_what_it_is_and_leaves_out_what_there_is_not() -> None:
    head = {"kind": "DecisionList", "apiVersion": API_VERSION}
    assert json.loads(msgspec.json.encode(DecisionList(items=()))) == {**head, "items": []}
    latest = b'{"kind": "DecisionList", "items": [], "ofALaterVersion": {"a": 1}, "waiting": null}'
    assert msgspec.to_builtins(msgspec.json.decode(latest, type=DecisionList))["waiting"] is None
    with pytest.raises(msgspec.ValidationError, match="QueueReport"):
        msgspec.json.decode(b'{"kind": "QueueReport", "items": []}', type=DecisionList)
