"""A canary in every text that a bundle reads, one at a time: it comes out only where the allowlist says so."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from secondary_scheduler.cli.bundle.keeping import allowlist, is_own_label
from secondary_scheduler.clusterstatus.forwarding import Answer
from tests.unit.cli.bundle.installation import CONFIGURATION, LOGS, PAGES, Json, collect, everything, objects

CANARY = "canary7f3a9b2c4d5e6f70"
LARGE = {"deployments", "pods", "replicasets"}
"""Kinds with so many fields that trying each takes half a minute."""
KINDS = {
    "secondaryschedulers": "SecondaryScheduler",
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
    "pods": "Pod",
    "leases": "Lease",
    "configmaps": "ConfigMap",
    "events": "Event",
}
TABLES = ("labels", "annotations", "nodeSelector", "requests", "limits")
SECRETS = (
    f"Authorization: Bearer {CANARY}",
    f"token={CANARY}",
    f'{{"password": "{CANARY}"}}',
    f"https://user:{CANARY}@prometheus.example.com/",
    f"eyJhbGciOiJIUzI1NiJ9.{CANARY}.{CANARY}",
    f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----",
)
Steps = tuple[str | int, ...]


def texts(value: Any, steps: Steps = ()) -> Iterator[Steps]:
    """The way to every text in JSON-like data."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from texts(item, (*steps, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts(item, (*steps, index))
    elif isinstance(value, str):
        yield steps


def replaced(value: Any, steps: Steps, content: Any) -> Any:
    """A copy with other content at the end of a way."""
    changed = copy.deepcopy(value)
    target = changed
    for step in steps[:-1]:
        target = target[step]
    target[steps[-1]] = content
    return changed


def path_of(steps: Steps) -> str:
    """A way in the words of the allowlist."""
    path = ""
    for index, step in enumerate(steps):
        previous = steps[index - 1] if index else ""
        path += "[]" if isinstance(step, int) else "{}" if previous in TABLES else f".{step}"
    return path


def allowed(kind: str, steps: Steps) -> bool:
    if "labels" in steps and not is_own_label(str(steps[-1])):
        return False
    if "annotations" in steps and steps[-1] != "secondary-scheduler.io/configuration-hash":
        return False
    return path_of(steps) in allowlist()[kind]


def object_texts(quick: int) -> list[Any]:
    """The texts of all objects. One of two is tried in the quick run: `quick` says whether the even or odd ones."""
    ways = [(plural, steps) for plural, listed in objects().items() for steps in texts(listed)]
    return [
        pytest.param(
            plural,
            steps,
            id=f"{plural}{path_of(steps[1:])}-{steps[-1]}",
            marks=() if index % 2 == quick else pytest.mark.slow,
        )
        for index, (plural, steps) in enumerate(ways)
    ]


CONFIGURATION_TEXTS = [pytest.param(steps, id=path_of(steps)) for steps in texts(CONFIGURATION)]
NOT_OF_THE_MODEL = {"unknownField", "unknown", "anything", "foreign", "token", "keyData"}


@pytest.mark.parametrize(("plural", "steps"), object_texts(quick=0))
def test_a_text_of_an_object_comes_out_only_where_the_allowlist_says_so(
    monkeypatch: pytest.MonkeyPatch, plural: str, steps: Steps
) -> None:
    served = {**objects(), plural: replaced(objects()[plural], steps, CANARY)}
    members, _ = collect(monkeypatch, served)
    assert CANARY not in everything(members) or allowed(KINDS[plural], steps[1:])


@pytest.mark.parametrize(("plural", "steps"), object_texts(quick=1))
def test_what_looks_like_a_secret_comes_out_nowhere(monkeypatch: pytest.MonkeyPatch, plural: str, steps: Steps) -> None:
    served = {**objects(), plural: replaced(objects()[plural], steps, "\n".join(SECRETS))}
    members, _ = collect(monkeypatch, served)
    assert CANARY not in everything(members)


@pytest.mark.parametrize("steps", CONFIGURATION_TEXTS)
def test_a_text_of_a_configuration_comes_out_only_where_the_model_has_it_and_no_secret(
    monkeypatch: pytest.MonkeyPatch, steps: Steps
) -> None:
    changed = replaced(CONFIGURATION, steps, CANARY)
    served = objects()
    served["configmaps"][0]["data"]["config.yaml"] = f"# a comment\n{json.dumps(changed)}"
    members, _ = collect(monkeypatch, served, ask=lambda _, path: Answer(200, pages(changed)[path]))
    shown = everything(members)
    assert CANARY not in shown or steps[-1] not in NOT_OF_THE_MODEL
    assert "a comment" not in shown
    changed = replaced(CONFIGURATION, steps, "\n".join(SECRETS))
    served["configmaps"][0]["data"]["config.yaml"] = json.dumps(changed)
    members, _ = collect(monkeypatch, served, ask=lambda _, path: Answer(200, pages(changed)[path]))
    assert CANARY not in everything(members)


def pages(configuration: Json) -> dict[str, bytes]:
    return {**PAGES, "/configz": json.dumps({"componentconfig": configuration}).encode()}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("container", LOGS)
def test_what_looks_like_a_secret_is_taken_out_of_logs(
    monkeypatch: pytest.MonkeyPatch, container: str, secret: str
) -> None:
    members, _ = collect(monkeypatch, logs={container: f"before\n{secret}\nafter\n".encode()})
    shown = everything(members)
    assert CANARY not in shown
    assert "before\n" in shown


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("page", PAGES)
def test_what_looks_like_a_secret_is_taken_out_of_answers(
    monkeypatch: pytest.MonkeyPatch, page: str, secret: str
) -> None:
    for status in (200, 503):
        members, _ = collect(
            monkeypatch,
            ask=lambda _, path, status=status: Answer(status, f"{secret}\n".encode() if path == page else PAGES[path]),
        )
        assert CANARY not in everything(members)


VARIABLES: list[tuple[str, Steps]] = [
    ("deployments", (0, "spec", "template", "spec", "containers", 0, "env", 0, "value")),
    ("pods", (0, "spec", "containers", 0, "env", 0, "value")),
    ("secondaryschedulers", (0, "spec", "env", 0, "value")),
]


@pytest.mark.parametrize(("plural", "steps"), VARIABLES)
def test_the_value_of_a_variable_is_taken_out_of_logs_in_plain_and_in_base64(
    monkeypatch: pytest.MonkeyPatch, plural: str, steps: Steps
) -> None:
    served = {**objects(), plural: replaced(objects()[plural], steps, CANARY)}
    coded = [base64.b64encode(f"{before}{CANARY}:more".encode()).decode() for before in ("", "a", "ab", "user:")]
    log = "\n".join([f"starts with {CANARY}.", *coded, ""])
    members, _ = collect(monkeypatch, served, logs={"main": log.encode()})
    shown = everything(members)
    assert CANARY not in shown
    assert not [code for code in coded if code[4:24] in shown]
    assert "starts with [secret]." in shown


@pytest.mark.parametrize(
    ("plural", "steps", "content"),
    [
        ("deployments", (0, "spec", "template", "spec", "containers", 0, "args", 2), f"--secret-thing={CANARY}"),
        ("deployments", (0, "spec", "template", "spec", "containers", 0, "args", 2), f"--thing={CANARY}"),
        ("pods", (0, "spec", "containers", 0, "args", 3), CANARY),
        ("pods", (0, "metadata", "annotations", "example.com/note"), f"https://user:{CANARY}@example.com"),
        (
            "pods",
            (0, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"),
            json.dumps({"spec": {"containers": [{"env": [{"name": "A", "value": CANARY}]}]}}),
        ),
        ("configmaps", (0, "data", "config.yaml"), json.dumps({"metricProvider": {"token": CANARY}})),
        ("configmaps", (0, "data", "config.yaml"), f"not: [yaml\n# token: {CANARY}\n"),
    ],
)
def test_a_secret_of_an_object_is_taken_out_of_logs(
    monkeypatch: pytest.MonkeyPatch, plural: str, steps: Steps, content: str
) -> None:
    served = {**objects(), plural: replaced(objects()[plural], steps, content)}
    members, _ = collect(monkeypatch, served, logs={"main": f"it says {CANARY} in a sentence\n".encode()})
    assert CANARY not in everything(members)


def test_the_kubeconfig_s_token_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    members, _ = collect(monkeypatch, token=CANARY, logs={"main": f"who are you, {CANARY}?\n".encode()})
    assert CANARY not in everything(members)


# The API server lets no Lease through that has another form, and whoever looks for the leader relies on it.
@pytest.mark.parametrize(
    "plural",
    [
        pytest.param(plural, marks=pytest.mark.slow) if plural in LARGE else plural
        for plural in KINDS
        if plural != "leases"
    ],
)
def test_an_object_of_any_form_ends_nothing(monkeypatch: pytest.MonkeyPatch, plural: str) -> None:
    listed = objects()[plural]
    ways = {steps[:length] for steps in texts(listed) for length in range(2, len(steps) + 1)}
    for steps in ways:
        content = ([{"a": [None]}], {"a": [{}]}, 5)[len(str(steps)) % 3]
        members, _ = collect(monkeypatch, {**objects(), plural: replaced(listed, steps, content)})
        assert "README.txt" in members.contents, steps
