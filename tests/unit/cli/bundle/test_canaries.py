"""A canary in every text that a bundle reads, one at a time: it comes out only where the list below says so."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from secondary_scheduler.clusterstatus.schedulerclient import SchedulerAnswer
from tests.unit.cli.bundle.installation import CONFIGURATION, LOGS, PAGES, collect, everything, objects

CANARY = "canary7f3a9b2c4d5e6f70"
ALLOWED = {
    "secondaryschedulers": ".metadata.name .metadata.namespace .spec.schedulerConfig .status.conditions[].type "
    ".status.conditions[].status .status.conditions[].reason .status.conditions[].message",
    "deployments": ".metadata.name .metadata.namespace .spec.template.spec.containers[].image "
    ".spec.template.metadata.annotations.secondary-scheduler.io/configuration-hash",
    "pods": ".metadata.name .spec.nodeName .status.phase .status.containerStatuses[].name "
    ".status.containerStatuses[].image .status.containerStatuses[].imageID "
    ".status.containerStatuses[].state.running.startedAt .status.containerStatuses[].lastState.terminated.startedAt "
    ".status.containerStatuses[].lastState.terminated.reason .status.containerStatuses[].lastState.terminated.message",
    "leases": ".metadata.namespace .metadata.annotations.secondary-scheduler.io/configuration-hash",
    "configmaps": "",
    "events": ".type .reason .message",
}
"""What comes out: names, images, and what the API server, kubelet and operator say."""
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
    """A way in words: `.spec.containers[].image`."""
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in steps)


def object_texts(quick: int) -> list[Any]:
    """The texts of all objects. One of two is tried in the quick run: `quick` says whether the even or odd ones."""
    ways = [(plural, steps) for plural, listed in objects().items() for steps in texts(listed)]
    return [
        pytest.param(
            plural,
            steps,
            id=f"{plural}{path_of(steps[1:])}",
            marks=() if index % 2 == quick else pytest.mark.slow,
        )
        for index, (plural, steps) in enumerate(ways)
    ]


CONFIGURATION_TEXTS = [pytest.param(steps, id=path_of(steps)) for steps in texts(CONFIGURATION)]
NOT_OF_THE_MODEL = {"unknownField", "unknown", "anything", "foreign", "token", "keyData"}


@pytest.mark.parametrize(("plural", "steps"), object_texts(quick=0))
def test_a_text_of_an_object_comes_out_only_where_the_list_says_so(
    monkeypatch: pytest.MonkeyPatch, plural: str, steps: Steps
) -> None:
    served = {**objects(), plural: replaced(objects()[plural], steps, CANARY)}
    members, _ = collect(monkeypatch, served)
    assert CANARY not in everything(members) or path_of(steps[1:]) in ALLOWED[plural].split()


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
    members, _ = collect(monkeypatch, served)
    shown = everything(members)
    assert CANARY not in shown or steps[-1] not in NOT_OF_THE_MODEL
    assert "a comment" not in shown
    changed = replaced(CONFIGURATION, steps, "\n".join(SECRETS))
    served["configmaps"][0]["data"]["config.yaml"] = json.dumps(changed)
    members, _ = collect(monkeypatch, served)
    assert CANARY not in everything(members)


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
    structured = json.dumps({"items": [{"message": secret, "password": CANARY, secret: "key"}]})
    for answer in (
        SchedulerAnswer(503, secret.encode()),
        SchedulerAnswer(200, structured.encode()),
        SchedulerAnswer(200, f"{secret}\n".encode()),
    ):
        members, _ = collect(monkeypatch, answers={page: answer})
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
        ("configmaps", (0, "data", "other.yaml"), f"token: {CANARY}"),
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


# `status` relies on the API server for the form of Deployments and Leases.
@pytest.mark.parametrize("plural", ["pods", "events", "configmaps"])
def test_an_object_of_any_form_ends_nothing(monkeypatch: pytest.MonkeyPatch, plural: str) -> None:
    listed = objects()[plural]
    ways = {steps[:length] for steps in texts(listed) for length in range(2, len(steps) + 1)}
    for steps in sorted(ways, key=str)[:: 1 if plural != "pods" else 3]:
        content = ([{"a": [None]}], {"a": [{}]}, 5)[len(str(steps)) % 3]
        members, _ = collect(monkeypatch, {**objects(), plural: replaced(listed, steps, content)})
        assert "README.txt" in members.contents, steps
