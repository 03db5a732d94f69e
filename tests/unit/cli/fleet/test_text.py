"""What is told: reasons on one line, events reduced, secrets masked, everything else left as it was said."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest

from secondary_scheduler.cli.fleet.engine import failure_reason
from secondary_scheduler.cli.fleet.events import EventCollector, change_counts, one_line, plain_text
from secondary_scheduler.cli.redaction import Redactor, secret_parts

LOCKED = """\
error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete the \
lock file with `pulumi cancel`.
  file:///x/.pulumi/locks/organization/p/prod/1.json: created by ann@host (pid 42) at 2026-11-21T21:17:46Z"""


@pytest.mark.parametrize(
    ("event_error", "printed", "reason"),
    [
        (
            "",
            LOCKED,
            "locked by another update of ann@host (pid 42) since 2026-11-21T21:17:46Z; wait for it, or if it is dead: "
            "pulumi cancel --stack prod",
        ),
        (
            "",
            "error: [409] Conflict: Another update is currently in progress.",
            "locked by another update; wait for it, or if it is dead: pulumi cancel --stack prod",
        ),
        ("", "error: no stack named 'prod' found", "the backend has no such stack; make it: pulumi stack init prod"),
        (
            "",
            "error: get stack secrets manager: incorrect passphrase",
            "its secrets cannot be decrypted: PULUMI_CONFIG_PASSPHRASE (or _FILE) is missing or not this stack's",
        ),
        (
            "stacks/x:1: a: bad\nstacks/x:2: b: worse",
            "error: preview failed",
            "stacks/x:1: a: bad stacks/x:2: b: worse",
        ),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'y'", "", "KeyError: 'y'"),
        ("", "noise\nerror: preview failed\nerror: it is \x1b[31mred\x1b[0m", "it is red"),
        ("", "only this", "only this"),
        ("", "", "pulumi ended with exit code 255 and no output"),
    ],
)
def test_a_failure_is_one_line(event_error: str, printed: str, reason: str) -> None:
    assert failure_reason("prod", event_error, printed, 255) == reason


def test_long_reasons_are_cut() -> None:
    assert len(failure_reason("prod", "x" * 10_000, "", 1)) <= 400
    assert one_line("a\n b", 3) == "a b"
    assert plain_text("<{%reset%}>a<{%fg 1%}>b\tc") == "ab c"


def event(**fields: Any) -> SimpleNamespace:
    names = (
        "prelude_event",
        "resource_pre_event",
        "res_outputs_event",
        "res_op_failed_event",
        "diagnostic_event",
        "policy_event",
        "summary_event",
    )
    return SimpleNamespace(**{**dict.fromkeys(names), **fields})


def step(op: str, name: str, kind: str = "kubernetes:core/v1:Secret", diffs: list[str] | None = None) -> Any:
    urn = f"urn:pulumi:prod::project::parent:T$odd::{name}".replace("odd", kind)
    metadata = SimpleNamespace(op=SimpleNamespace(value=op), urn=urn, diffs=diffs, keys=None, old={"data": "hidden"})
    return event(resource_pre_event=SimpleNamespace(metadata=metadata))


def said(message: str, severity: str = "info", urn: str = "", ephemeral: bool = False) -> Any:
    return event(
        diagnostic_event=SimpleNamespace(
            message=message, severity=severity, urn=urn, ephemeral=ephemeral, color="never"
        )
    )


def test_events_become_changes_by_name_and_property_but_never_by_value() -> None:
    events = EventCollector()
    for engine_event in (
        step("same", "quiet"),
        step("update", "a", diffs=["spec.weight"]),
        step("create-replacement", "b", diffs=["data"]),
        step("replace", "b"),
        step("delete-replaced", "b"),
        step("create", "whole", kind="pulumi:pulumi:Stack"),
    ):
        events.event(engine_event)
    assert [resource.line() for resource in events.resources] == [
        "update  kubernetes:core/v1:Secret a (spec.weight)",
        "replace kubernetes:core/v1:Secret b (data)",
    ]
    assert events.counts == {"update": 1, "replace": 1}
    assert "hidden" not in repr(events.resources)


def test_the_engines_summary_counts_where_there_is_one() -> None:
    events = EventCollector()
    events.event(event(summary_event=SimpleNamespace(resource_changes={"same": 4, "create": 2, "update": 0})))
    assert events.counts == {"create": 2}
    assert change_counts({"replace": 1, "create-replacement": 1, "delete-replaced": 1, "same": 9}) == {"replace": 1}


def test_the_first_error_that_says_something_is_the_failure_and_noise_is_left_out() -> None:
    events = EventCollector()
    for engine_event in (
        said("passing", ephemeral=True),
        said("using pulumi-language-python from $PATH at /x", "warning"),
        said("weight 1 -> 2"),
        said("update failed", "error"),
        said("it broke", "error", urn="urn:pulumi:s::p::k:T::thing"),
        said("an unhandled error occurred: Program exited with non-zero exit code: 1", "error"),
    ):
        events.event(engine_event)
    assert events.failure() == "it broke"
    assert events.messages == ("weight 1 -> 2", "error: update failed", "thing: error: it broke")
    assert not events.began


def test_secrets_are_masked_as_they_are_in_base64_and_in_json() -> None:
    secret = 'to"ken-31415'
    redactor = Redactor([secret + "\n", "abc"])
    encoded = base64.b64encode(secret.encode()).decode()
    assert redactor.text(f"x {secret} {encoded} abc") == "x [secret] [secret] abc"
    data = {"a": [secret, 1, True], secret: {"b": None}}
    assert redactor.data(data) == {"a": ["[secret]", 1, True], "[secret]": {"b": None}}
    assert secret not in redactor.text(json.dumps({"a": secret}))


def test_of_a_kubeconfig_its_credentials_are_secret_and_the_servers_address_is_not() -> None:
    kubeconfig = json.dumps(
        {
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": "https://api:6443"}}],
            "users": [{"name": "u", "user": {"token": "t0ken", "client-key-data": "a2V5"}}],
        }
    )
    assert set(secret_parts(kubeconfig)) == {"t0ken", "a2V5"}
    assert secret_parts("plain text") == ["plain text"]
    assert secret_parts('{"a": ["one", {"b": "two"}]}') == ["one", "two"]
    assert secret_parts("a: b: [") == ["a: b: ["]
