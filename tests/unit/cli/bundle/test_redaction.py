"""What is taken out of text, and what is left."""

from __future__ import annotations

import base64
import json
import re

import pytest

from secondary_scheduler.cli.bundle.redaction import KnownSecrets, Redaction, is_known_flag
from secondary_scheduler.operator.options import parse_options

KEY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abcdefgh.ijk", "Authorization: [secret]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: [secret]"),
        ('{"authorization":"Basic dXNlcjpwYXNz","a":1}', '{"authorization":"[secret]","a":1}'),
        ("sent Bearer abcdefghij, refused", "sent Bearer [secret], refused"),
        ("token=abc next", "token=[secret] next"),
        ('{"token": "abc", "a": 1}', '{"token": "[secret]", "a": 1}'),
        ('msg="{\\"password\\": \\"abc\\"}"', 'msg="{\\"password\\": \\"[secret]\\"}"'),
        ("client_secret: 'a b c'", "client_secret: '[secret]'"),
        ("aws_secret_access_key=abc/def+g", "aws_secret_access_key=[secret]"),
        ("id AKIAIOSFODNN7EXAMPLE used", "id [secret] used"),
        ("https://user:pa55@host/path?q=1", "https://[secret]@host/path?q=1"),
        ("got eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl.", "got [secret]"),
        ("sha256~abcdefghijklmnopqrstuvwxyz", "[secret]"),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----\nmore", "[secret]\nmore"),
        (f"-----BEGIN PRIVATE KEY-----\\n{KEY}\\n-----END PRIVATE KEY-----\\n", "[secret]\\n"),
        (f"-----BEGIN PRIVATE KEY-----\n{KEY}", "[secret]"),
        (f"{KEY}\n-----END PRIVATE KEY-----\nmore", "[secret]\nmore"),
        ("to\x1b[31mken=abc", "token=[secret]"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str, left: str) -> None:
    assert Redaction().text(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "Successfully assigned demo/web-1 to node-1",
        "https://prometheus.example.com:9090/api/v1/query?query=up",
        "image registry.example.com/shop/web@sha256:0123456789abcdef",
        'scheduler_pods{queue="active"} 3',
        "the token is not known to the API server",
        "--metric-credentials-address=https://127.0.0.1:9090",
        "tokenFile: /var/run/secrets/token",
        "2026-11-24T10:00:00Z\tinfo\tleads",
    ],
)
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert Redaction().text(text) == text


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_known_secret_is_taken_out_of_base64_wherever_it_begins(before: str, encode: object) -> None:
    secret = "s3cr?t>value~0123"
    assert callable(encode)
    coded = encode(f"{before}{secret}\n".encode()).decode()
    left = Redaction([secret]).text(f"data {coded} end")
    head, tail = left.removeprefix("data ").removesuffix(" end").split("[secret]")
    # What is left encodes what stands around it, and a few bits of its first and last character.
    assert len(head) <= -(-len(before) * 8 // 6) + 1
    assert len(tail) <= 4


def test_a_known_secret_is_taken_out_of_json_that_is_within_text() -> None:
    secret = 'with "quotes" and \n a line'
    assert "quotes" not in Redaction([secret]).text(f"value {json.dumps(secret)}")


def test_short_values_of_variables_are_no_secrets_unless_they_are_said_to_be() -> None:
    known = KnownSecrets()
    variables = [("LEVEL", "info"), ("DB_PASSWORD", "abcd"), ("LONG", "long-value"), ("NAMESPACE", "schedulers")]
    known.add_object({"env": [{"name": name, "value": value} for name, value in variables]})
    known.spare({"schedulers"})
    assert known.secrets() == ["abcd", "long-value"]


def test_names_of_secrets_are_no_secrets() -> None:
    known = KnownSecrets()
    known.add_object({"secret": {"secretName": "metrics-token"}, "metricCredentials": {"key": "token"}})
    assert known.secrets() == []


@pytest.mark.parametrize(
    ("words", "secrets"),
    [
        (["--leader-elect=true-or-not", "--tls_min_version=VersionTLS12"], []),
        (["--password=hunter2hunter2"], ["hunter2hunter2"]),
        (["--password", "hunter2hunter2"], ["hunter2hunter2"]),
        (["-vhunter2hunter2", "--other", "--leader-elect=true"], []),
        ([{"a": "hunter2hunter2"}, 5], []),
    ],
)
def test_values_of_unknown_flags_are_secrets(words: list[object], secrets: list[str]) -> None:
    known = KnownSecrets()
    known.add_object({"args": words})
    assert known.secrets() == secrets


def test_the_operator_s_flags_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options(["--help"], {})
    options = set(re.findall(r"^  (--?[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"-h"}
    assert {"--status-of", "-v"} <= options
    assert [option for option in options if not is_known_flag(option)] == []


def test_half_of_a_character_cannot_break_a_file() -> None:
    assert Redaction().text("a\ud800b") == "a\N{REPLACEMENT CHARACTER}b"
