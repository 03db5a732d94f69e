"""What users copy names actions of others by the full id of a commit: whoever can move a tag could run in their CI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted([*ROOT.glob(".github/**/*.y*ml"), *ROOT.glob("examples/**/*.y*ml")])
USES = re.compile(r"^\s*(?:- )?uses:\s*(?P<action>\S+)(?P<comment>.*)$", re.MULTILINE)
TAGGED = {"pulumi/pulumi-python-3.11:3.220.0", "python:3.11-slim"}
"""Images that docs/fleet.md says are named by a tag."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_an_action_of_others_is_named_by_its_commit_with_the_version_beside_it(file: Path) -> None:
    for match in USES.finditer(file.read_text(encoding="utf-8")):
        if not match["action"].startswith("./"):
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", match["action"])
            assert re.fullmatch(r"  # v\d+\.\d+\.\d+", match["comment"])


def test_an_action_has_one_version() -> None:
    used = {match["action"] for file in FILES for match in USES.finditer(file.read_text(encoding="utf-8"))}
    others = [action.partition("@")[0] for action in used if "@" in action]
    assert len(others) > 2
    assert sorted(others) == sorted(set(others))


def test_images_that_are_named_by_a_tag_are_listed() -> None:
    images = set(re.findall(r"^\s*image:\s*(\S+)$", (ROOT / "examples/ci/gitlab-ci.yaml").read_text(), re.MULTILINE))
    assert images == TAGGED
    page = (ROOT / "docs/fleet.md").read_text(encoding="utf-8")
    assert all(f"`{image}`" in page for image in images)
