"""What is written to the stack's state."""

from __future__ import annotations

import json

from devcluster.pulumi_stand_ins.kubernetes_provider.objects import Checkpoint
from devcluster.pulumi_stand_ins.kubernetes_provider.values import (
    Object,
    contains_secret,
    is_secret,
    secret,
)

LIVE: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s"},
    "data": {"token": "Y2FuYXJ5"},
    "type": "Opaque",
}


def open_text(value: object) -> str:
    """What of the value would be written in clear."""
    if is_secret(value):
        return ""
    if isinstance(value, dict):
        return "".join(open_text(item) for item in value.values())
    return json.dumps(value)


def test_outputs_are_the_live_object_with_inputs_and_field_manager() -> None:
    inputs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    live = {**inputs, "metadata": {"name": "c", "uid": "u"}}
    outputs = Checkpoint(live, inputs, "manager").outputs()
    assert outputs == {**live, "__inputs": inputs, "__initialApiVersion": "v1", "__fieldManager": "manager"}
    assert Checkpoint.read(outputs) == Checkpoint(live, inputs, "manager", "v1")


def test_a_secret_with_any_secret_input_is_never_written_in_clear() -> None:
    for content in ({"stringData": {"token": secret("canary")}}, {"data": {"token": secret("Y2FuYXJ5")}}):
        inputs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **content}
        outputs = Checkpoint(LIVE, inputs, "m").outputs()
        assert is_secret(outputs["data"])
        assert "canary" not in open_text(outputs)
        assert "Y2FuYXJ5" not in open_text(outputs)


def test_a_secret_without_secret_inputs_stays_readable() -> None:
    inputs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"token": "Y2FuYXJ5"}}
    assert not contains_secret(Checkpoint(LIVE, inputs, "m").outputs())


def test_inputs_beside_the_outputs_win_and_keep_their_marks() -> None:
    outputs = Checkpoint(LIVE, {"kind": "Secret", "data": {"a": "old"}}, "m").outputs()
    inputs = {"kind": "Secret", "data": secret({"a": "new"})}
    assert Checkpoint.read(outputs, inputs).inputs == inputs


def test_an_empty_state_reads_as_nothing() -> None:
    assert Checkpoint.read({}, {}) == Checkpoint({}, {}, "", "")
