"""Hashes and fingerprints are those of the Go modules (vectors/podfingerprint.json)."""

import json
import random
from pathlib import Path

import pytest

from scheduler.plugins.noderesourcetopologymatch.fingerprint import fingerprint, incompatibility, xxhash64

VECTORS = json.loads((Path(__file__).parents[3] / "conformance" / "vectors" / "podfingerprint.json").read_text())


def test_hashes_are_those_of_the_go_module() -> None:
    assert len(VECTORS["xxhash64"]) > 100
    for vector in VECTORS["xxhash64"]:
        assert f"{xxhash64(vector['text'].encode(), int(vector['seed'], 16)):x}" == vector["hash"], vector


@pytest.mark.parametrize("vector", VECTORS["fingerprints"], ids=lambda vector: f"{vector['pods']} pods")
def test_fingerprints_are_those_of_the_go_module_in_any_order(vector: dict[str, object]) -> None:
    pods = [(namespace, name) for namespace, name in VECTORS["pods"][: vector["pods"]]]
    random.Random(1).shuffle(pods)
    assert fingerprint(pods) == vector["fingerprint"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "malformed fingerprint"),
        ("pfp0v00112345", "malformed fingerprint"),
        ("xxx0v0010123456789abcdef", "malformed fingerprint"),
        ("pfp0v0020123456789abcdef", "incompatible version"),
        ("pfp0v0010123456789abcdef", ""),
    ],
)
def test_an_incompatible_fingerprint_is_recognised(text: str, why: str) -> None:
    assert incompatibility(text) == why
