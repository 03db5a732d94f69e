"""One version: what cannot read `scheduler.__version__` says the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scheduler import __version__
from tools import version
from tools.olm_bundle import OUTPUT, PACKAGE


@pytest.mark.parametrize("distribution", [".", "components", "devcluster"])
def test_every_distribution_has_the_version(distribution: str) -> None:
    command = [sys.executable, "-m", "hatchling", "metadata", "version"]
    done = subprocess.run(
        command, cwd=version.ROOT / distribution, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, __version__), done.stderr


def test_pages_examples_stacks_and_actions_name_the_version() -> None:
    assert version.disagreeing(__version__) == [], "run: python tools/version.py --set VERSION"


def test_bundle_and_catalog_for_olm_name_the_version() -> None:
    csv = yaml.safe_load((OUTPUT / f"bundle/manifests/{PACKAGE}.clusterserviceversion.yaml").read_text())
    assert csv["spec"]["version"] == __version__, "run: make olm"
    assert csv["metadata"]["name"] == f"{PACKAGE}.v{__version__}"
    images = {related["image"] for related in csv["spec"]["relatedImages"]}
    assert {image.rpartition(":")[2] for image in images} == {__version__}
    catalog = (OUTPUT / f"catalog/{PACKAGE}/catalog.json").read_text()
    assert f'"name": {json.dumps(csv["metadata"]["name"])}' in catalog


def test_the_changelog_has_a_section_for_the_version_before_all_others() -> None:
    text = (version.ROOT / "CHANGELOG.md").read_text()
    sections = re.findall(r"^## \[([^\]]+)\]", text, re.MULTILINE)
    assert next(section for section in sections if section != "Unreleased") == __version__


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("README.md", "registry.example.com/secondary-scheduler/kube-scheduler:9.9.9"),
        ("docs/olm.md", "the ClusterServiceVersion `secondary-scheduler-operator.v9.9.9`."),
        ("components/pyproject.toml", 'version = "9.9.9"'),
        (".pre-commit-hooks.yaml", "#       rev: v9.9.9"),
        ("image/Containerfile", "ARG VERSION=9.9.9\n"),
    ],
)
def test_a_copy_is_recognised_wherever_one_stands(path: str, text: str) -> None:
    spans = list(version.copies(Path(path), text))
    assert [text[begin:end] for begin, end in spans] == ["9.9.9"]


def test_every_containerfile_of_ours_is_among_the_files_with_copies() -> None:
    containerfiles = {path.relative_to(version.ROOT) for path in (version.ROOT / "image").glob("*Containerfile")}
    assert len(containerfiles) > 1
    assert containerfiles <= set(version.files())


def test_versions_of_others_are_left_alone() -> None:
    text = "scheduler-timestamp-0.1.0 and scheduler-plugins/kube-scheduler:v0.34.7, kube-scheduler 1.34.4"
    assert list(version.copies(Path("docs/image.md"), text)) == []


def test_pages_about_an_upgrade_go_to_the_next_patch() -> None:
    assert version.next_patch("0.2.9") == "0.2.10"
    assert version.wanted(version.UPGRADE, "0.2.0") == "0.2.1"
