# ruff: noqa: E501
"""A kubeconfig that cannot lead to the stack's cluster is refused without asking any cluster."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.config import Problem
from stacks.kubeconfig import check_kubeconfig
from stacks.settings import ClusterSettings
from tests.unit.stacks.conftest import KUBECONFIG

CANARY = "canary-31415926"


def cluster(**settings: str) -> ClusterSettings:
    return ClusterSettings.model_validate({"clusterIdentifier": "prod", **settings})


def with_user(**user: str) -> str:
    document: dict[str, Any] = copy.deepcopy(KUBECONFIG)
    document["users"][0]["user"] = user
    return json.dumps(document)


def jwt(expires: datetime | None) -> str:
    claims = {"sub": CANARY} | ({"exp": int(expires.timestamp())} if expires else {})
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.{CANARY}"


def certificate(ends: datetime) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(2**150).not_valid_before(ends - timedelta(days=1)).not_valid_after(ends)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return base64.b64encode(pem).decode()


NOW = datetime.now(UTC)
PAST, FUTURE = datetime(2021, 2, 3, 4, 5, tzinfo=UTC), NOW + timedelta(days=1)


def only(problems: list[Problem]) -> str:
    (problem,) = problems
    text = str(replace(problem, source="stacks/Pulumi.prod.yaml"))
    assert CANARY not in text
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(KUBECONFIG),
        with_user(token=CANARY),
        with_user(token=jwt(None)),
        with_user(token=jwt(FUTURE)),
        with_user(token=f"{CANARY}.not-base64!.x"),
        with_user(**{"client-certificate-data": certificate(FUTURE)}),
        with_user(**{"client-certificate-data": certificate(datetime(2060, 1, 1, tzinfo=UTC))}),
        with_user(**{"client-certificate-data": "bm8gY2VydGlmaWNhdGU="}),
    ],
)
def test_credentials_that_may_work_are_left_to_the_provider(content: str) -> None:
    assert check_kubeconfig(cluster(server="https://API.one.example:6443/"), content, {}) == []


@pytest.mark.parametrize("user", [{"token": jwt(PAST)}, {"client-certificate-data": certificate(PAST)}])
def test_credentials_that_have_expired_are_refused_with_the_time(user: dict[str, str]) -> None:
    message = only(check_kubeconfig(cluster(), with_user(**user), {}))
    assert (
        'kubeconfig: the credentials of context "one" in the stack\'s kubeconfig expired 2021-02-03 04:05 UTC'
        in message
    )
    assert "log in again" in message


def test_a_kubeconfig_of_another_cluster_is_refused() -> None:
    message = only(check_kubeconfig(cluster(server="https://api.two.example:6443"), json.dumps(KUBECONFIG), {}))
    assert ": cluster.server: the stack's kubeconfig points to another cluster than prod" in message
    assert "is for https://api.one.example:6443, and this stack is for https://api.two.example:6443" in message


@pytest.mark.parametrize(
    ("change", "context", "words"),
    [
        ({"current-context": ""}, None, "kubeconfig: the stack's kubeconfig has no current context; set cluster.context to one of: one"),
        ({}, "two", 'cluster.context: there is no context "two" in the stack\'s kubeconfig; it has: one'),
        ({"users": []}, None, 'the user of context "one" is missing'),
        ({"clusters": []}, None, 'the cluster of context "one" is missing'),
        ({"clusters": None}, None, "is not a kubeconfig"),
    ],
)  # fmt: skip
def test_a_context_that_leads_nowhere_is_refused(change: dict[str, Any], context: str | None, words: str) -> None:
    settings = cluster(context=context) if context else cluster()
    assert words in only(check_kubeconfig(settings, json.dumps({**KUBECONFIG, **change}), {}))


@pytest.mark.parametrize("content", ["", "no kubeconfig", f"a: [{CANARY}", f"token: {CANARY}", "[]"])
def test_an_invalid_kubeconfig_is_refused_without_being_shown(content: str) -> None:
    assert "is not a kubeconfig as kubectl and oc write it" in only(check_kubeconfig(cluster(), content, {}))


def test_a_missing_kubeconfig_is_reported_with_a_remedy(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert "kubeconfig: missing: $KUBECONFIG is not set and" in only(check_kubeconfig(cluster(), None, home))
    message = only(check_kubeconfig(cluster(), None, {"KUBECONFIG": str(tmp_path / "nowhere")}))
    assert f"the file {tmp_path}/nowhere ($KUBECONFIG) does not exist" in message
    in_a_pod = home | {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert check_kubeconfig(cluster(), None, in_a_pod) == []


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    message = only(check_kubeconfig(cluster(), None, {"KUBECONFIG": str(tmp_path / "binary")}))
    assert "cannot read" in message
    assert "it is not text" in message


def test_several_files_are_merged_and_the_first_wins(kubeconfig: Path, tmp_path: Path) -> None:
    other = copy.deepcopy(KUBECONFIG)
    other["current-context"] = "two"
    other["contexts"][0]["name"] = "two"  # type: ignore[index]
    (tmp_path / "other").write_text(json.dumps(other))
    environment = {"KUBECONFIG": f"{kubeconfig}:{tmp_path / 'nowhere'}:{tmp_path / 'other'}"}
    assert check_kubeconfig(cluster(), None, environment) == []
    assert check_kubeconfig(cluster(context="two", server="https://api.one.example:6443"), None, environment) == []


def test_the_usual_place_is_looked_at(kubeconfig: Path, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_bytes(kubeconfig.read_bytes())
    assert check_kubeconfig(cluster(), None, {"HOME": str(tmp_path)}) == []
