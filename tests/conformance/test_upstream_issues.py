"""The reproducers of docs/upstream-issues.md, as they stand, with the real kube-scheduler and scheduler-plugins."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devcluster import ports, processes, releases
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.schedulerplugins import binary_of_peer
from tests.support.minors import built_or_skip
from tests.support.pages import CHECKOUT, UPSTREAM_ISSUES, Shell, anchor, followed, text_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ISSUES = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", text_of(UPSTREAM_ISSUES), re.MULTILINE))
CRDS = {
    "appgroup": "appgroup.diktyo.x-k8s.io_appgroups",
    "networktopology": "networktopology.diktyo.x-k8s.io_networktopologies",
    "noderesourcetopology": "topology.node.k8s.io_noderesourcetopologies",
    "capacityscheduling": "scheduling.x-k8s.io_elasticquotas",
}
"""Upstream's manifests/NAME/crd.yaml, of which components/crds has copies."""


def cases() -> list[tuple[str, str]]:
    """Each issue with each minor whose kube-scheduler it is about; scheduler-plugins 0.34.7 runs on its own minor."""
    pairs: list[tuple[str, str]] = []
    for title, text in ISSUES.items():
        (versions,) = re.findall(r"^\*\*Versions\*\*: (.*)", text, re.MULTILINE)
        if "scheduler-plugins v0.34.7" in versions:
            pairs.append((releases.DEFAULT, title))
        else:
            pairs += [(minor, title) for minor, release in releases.RELEASES.items() if release.version in versions]
    return sorted(pairs)


@pytest.fixture(scope="module")
def plane_of() -> Iterator[Callable[[str], ControlPlane]]:
    """Gives an API server for a minor, with its kube-scheduler as the default one; one at a time: cases are sorted."""
    with contextlib.ExitStack() as stack:

        @functools.lru_cache(maxsize=1)
        def start(minor: str) -> ControlPlane:
            stack.close()
            return stack.enter_context(control_plane_running(minor))

        yield start


@pytest.fixture
def reader(plane_of: Callable[[str], ControlPlane], minor: str, tmp_path: Path) -> Iterator[Shell]:
    """A shell in what looks like a clone of scheduler-plugins after `make build`, with kube-scheduler on PATH."""
    if minor != releases.DEFAULT:
        built_or_skip(minor, "kube-scheduler")
    plane = plane_of(minor)
    clone, on_path = tmp_path / "clone", tmp_path / "bin"
    kube_scheduler = binaries.ensure(["kube-scheduler"], SilentReporter(), minor)["kube-scheduler"]
    for directory, binary in ((on_path, kube_scheduler), (clone / "bin", binary_of_peer())):
        directory.mkdir(parents=True)
        (directory / "kube-scheduler").symlink_to(binary)
    for name, file in CRDS.items():
        (clone / "manifests" / name).mkdir(parents=True)
        (clone / "manifests" / name / "crd.yaml").symlink_to(CHECKOUT / f"components/crds/{file}.yaml")
    environment = {
        "PATH": f"{on_path}:{os.defpath}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(plane.layout.kubeconfig),
        processes.CLUSTER_MARKER: str(tmp_path),
    }
    port = ports.allocate(["stranger"], {})["stranger"]
    shell = Shell(clone, environment, {"9443": str(port)}, tmp_path / "state")
    yield shell
    # What the page leaves to end by itself, and what a failure left behind, is not for the next issue.
    processes.sweep(tmp_path)
    shell.run("kubectl delete --force --wait=false --ignore-not-found -f objects.yaml")


@pytest.mark.parametrize(("minor", "title"), cases(), ids=anchor)
def test_the_commands_of_an_issue_show_the_fault(reader: Shell, title: str) -> None:
    blocks = followed("upstream", f"{UPSTREAM_ISSUES}#{anchor(title)}")
    assert sum(block.commands for block in blocks) > 1
    for block in blocks:
        reader.follow(block)


def test_there_are_ten_issues_and_the_table_says_of_each_what_showed_it() -> None:
    rows = re.findall(r"^\| \[.+\]\(#(.+)\) \| (.+) \|$", text_of(UPSTREAM_ISSUES), re.MULTILINE)
    assert [heading for heading, _ in rows] == [anchor(title) for title in ISSUES]
    assert len(rows) == 10
    shown = {(anchor(title), release_of(minor, title)) for minor, title in cases()}
    assert {(heading, version) for heading, cell in rows for version in re.findall(r"\d\.\d+[\w.-]*\d", cell)} == shown


def release_of(minor: str, title: str) -> str:
    """The version of the binary that an issue is about."""
    return "0.34.7" if "scheduler-plugins v" in ISSUES[title] else releases.RELEASES[minor].version
