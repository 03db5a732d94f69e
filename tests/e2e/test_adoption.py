"""An installation made by hand comes under Pulumi: nothing restarts, nothing is replaced (docs/guides/adopt.md).

The tests of this module run in order, for each mode on the same cluster and a stack of its own.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.support.live_stack import CHECKOUT, NAME, NAMESPACE, Live
from tests.support.rendering import Project
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

APPLIED = {"direct": [], "manifests": ["--server-side"]}
"""Both ways to apply, one for each mode."""
PLAIN = {"metricProvider": {}, "plugins": {}}
"""Without a metric source there is no Secret, which rendering leaves out."""


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    with LocalCluster(ClusterSpec(name="adoption", nodes=2, state_root=cluster_state_root)) as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["direct", "manifests"])
def live(
    request: pytest.FixtureRequest, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Live]:
    stack = Live(cluster, tmp_path_factory.mktemp("stack"), f"adopted-{request.param}")
    stack.settings = {**PLAIN, "installMode": request.param}
    yield stack
    stack.close()


@pytest.fixture(scope="module")
def rendered(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Manifests of the same stack file, and the installation that `kubectl apply` makes of them."""
    project = Project(tmp_path_factory.mktemp("project"))
    local = yaml.safe_load((CHECKOUT / "stacks" / "Pulumi.local.yaml").read_text())["config"]
    prefix = "secondary-scheduler:"
    values = {key.removeprefix(prefix): value for key, value in local.items() if key.startswith(prefix)}
    name = f"adopted-{live.settings['installMode']}"
    project.stack(name, values | live.settings)
    directory = project.root / "deploy"
    done = project.render("--stack", name, "--output-dir", str(directory))
    assert done.returncode == 0, done.stderr
    options = APPLIED[live.settings["installMode"]]
    eventually(lambda: kubectl(live, "apply", *options, "-f", str(directory), check=False).returncode == 0)
    return directory


def kubectl(live: Live, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["kubectl", *arguments], env=live.environment, capture_output=True, text=True, check=check, timeout=120
    )


def running(live: Live) -> dict[str, int]:
    """Restarts of every pod by its uid."""
    pods = live.core.list_namespaced_pod(NAMESPACE).items
    return {
        pod.metadata.uid: sum(status.restart_count for status in pod.status.container_statuses or []) for pod in pods
    }


@pytest.fixture(scope="module")
def before(live: Live, rendered: Path) -> dict[str, int]:
    ready: Any = lambda: live.deployments()[NAME].status.ready_replicas == 1  # noqa: E731
    eventually(lambda: NAME in live.deployments() and ready())
    live.places_a_pod(f"by-hand-{live.settings['installMode']}")
    return running(live)


def test_an_update_on_top_is_refused_object_by_object_and_changes_nothing(live: Live, before: dict[str, int]) -> None:
    output = live.up(fails=True)
    assert f"Namespace {NAMESPACE} already exists on the cluster" in output
    assert "Traceback" not in output
    assert running(live) == before


def test_what_the_stack_would_write_is_what_is_there(live: Live, before: dict[str, int], rendered: Path) -> None:
    options = APPLIED[live.settings["installMode"]]
    same = kubectl(live, "diff", *options, "-f", str(rendered), check=False)
    assert same.returncode == 0, same.stdout + same.stderr


def test_it_is_taken_over_without_a_restart_or_a_replacement(live: Live, before: dict[str, int]) -> None:
    shown = live.run("preview", "--json", adoptExisting=True)
    summary = json.loads(shown[shown.index("\n{") :])["changeSummary"]
    assert summary["create"] > 10
    assert set(summary) <= {"create", "same", "update"}, "of what exists, the provider alone is updated"
    assert summary.get("update", 0) <= 1
    assert "adoptExisting: existing objects are adopted" in live.up()
    assert running(live) == before
    live.up(adoptExisting=False)
    live.nothing_to_change()
    assert running(live) == before


def test_from_then_on_it_is_a_stack_like_any_other(live: Live, before: dict[str, int]) -> None:
    (former,) = live.config_maps()
    live.up(compatibility="upstream")
    (configuration,) = live.config_maps()
    assert configuration != former
    live.places_a_pod(f"adopted-{live.settings['installMode']}")
    live.nothing_to_change()
    live.run("destroy", "--yes", "--skip-preview")
    assert live.cluster_scoped() == live.before
