"""The answers of a scheduler: those of the version before are read, and no key of theirs is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.answers import API_VERSION, DecisionList, Document, NodeLoadReport, NodeReport, QueueReport

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


def lost(former: Any, latest: Any, at: str = "$") -> list[str]:
    """Where a key or a value of the one is not in the other."""
    if isinstance(former, dict) and isinstance(latest, dict):
        gone = [f"{at}.{key}" for key in former if key not in latest]
        return gone + [each for key in former.keys() & latest for each in lost(former[key], latest[key], f"{at}.{key}")]
    if isinstance(former, list) and isinstance(latest, list) and len(former) == len(latest):
        pairs = enumerate(zip(former, latest, strict=True))
        return [each for number, pair in pairs for each in lost(*pair, f"{at}[{number}]")]
    return [] if former == latest else [at]


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
