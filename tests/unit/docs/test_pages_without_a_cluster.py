"""The commands of pages that need no cluster, in an environment with the wheel and its extra `cli`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import simulating
from tests.support.environments import build_wheel, install_wheel, link_requirements, make_locked_environment
from tests.support.pages import CHECKOUT, INSTALL, JOURNEYS, File, Shell, followed
from tests.support.recordings import MadeRecording, bound

PROFILE = {
    "schedulerName": "mine",
    "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}},
    "pluginConfig": [
        {
            "name": "TargetLoadPacking",
            "args": {"metricProvider": {"type": "Prometheus", "address": "https://prometheus.example.com"}},
        }
    ],
}


def configuration(version: str) -> str:
    group = "kubescheduler.config.k8s.io"
    return yaml.safe_dump(
        {"apiVersion": f"{group}/{version}", "kind": "KubeSchedulerConfiguration", "profiles": [PROFILE]}
    )


def config_map() -> str:
    data = {"config.yaml": configuration("v1")}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})


def nodes() -> str:
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    each = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": capacity}}
        for name in ("node-1", "node-2")
    ]
    return yaml.safe_dump_all(each)


def pod(name: str) -> str:
    container = {"name": "c", "image": "registry.example.com/shop/web:1", "resources": {"requests": {"cpu": "50m"}}}
    spec = {"schedulerName": "mine", "containers": [container]}
    metadata = {"name": name, "namespace": "default"}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def recording() -> str:
    """One pod waits, two arrive and are bound, one of them goes."""
    recorded = MadeRecording().there(simulating.node("node-1"), simulating.node("node-2"), of_mine("one"))
    for number, name in enumerate(("two", "three")):
        second = 10 + 10 * number
        recorded.added(second, of_mine(name)).modified(second + 1, bound(of_mine(name), "node-1", second + 1))
    return recorded.deleted(40, of_mine("two")).text()


def of_mine(name: str) -> dict[str, Any]:
    return simulating.pod(name, schedulerName="mine")


def stack_file() -> str:
    """The stack of the install guide."""
    (text,) = [
        part.content
        for block in followed("kubernetes", INSTALL)
        for part in block.content
        if isinstance(part, File) and part.path.startswith("stacks/")
    ]
    return text + "  secondary-scheduler:prometheusToken: {secure: v1:x}\n"


FILES: dict[str, Callable[[], str]] = {
    "config.yaml": lambda: configuration("v1"),
    "configmap.yaml": config_map,
    "old.yaml": lambda: configuration("v1beta3"),
    "stacks/Pulumi.prod.yaml": stack_file,
    "nodes.yaml": nodes,
    "pods.yaml": lambda: pod("one"),
    "one-more.yaml": lambda: pod("two"),
    "cluster.json": lambda: f"{nodes()}---\n{pod('one')}",
    "cluster.recording": recording,
    "load.json": lambda: '{"timestamp": 0, "window": {}, "source": "", "data": {"NodeMetricsMap": {}}}',
}
"""The reader's own files, which the pages take for granted."""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A reader's shell in a clone, with the environment that the install guide makes."""
    root = tmp_path_factory.mktemp("reader")
    clone = root / "clone"
    for name in ("examples", "stacks", "components"):
        shutil.copytree(CHECKOUT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "Pulumi.yaml", clone)
    make_locked_environment(clone / ".venv", CHECKOUT / "requirements.txt")
    install_wheel(clone / ".venv", build_wheel(root), "cli")
    # The build tool of the example; a reader's pip fetches it.
    link_requirements(clone / ".venv", "hatchling", "editables")
    for name, text in FILES.items():
        path = clone / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text(), encoding="utf-8")
    environment = {
        "PATH": f"{clone}/.venv/bin:{os.defpath}",
        "HOME": str(root),
        "COLUMNS": "160",
        "PROMETHEUS_CA": str(clone / "config.yaml"),
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    return Shell(clone, environment, {}, root / "shell")


@pytest.mark.parametrize("page", JOURNEYS["files"])
def test_the_commands_of_a_page_do_what_it_shows(shell: Shell, page: str) -> None:
    for block in followed("files", page):
        shell.follow(block)


@pytest.mark.parametrize("page", JOURNEYS["checkout"])
def test_the_commands_for_developers_run_in_a_checkout(tmp_path: Path, page: str) -> None:
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}", "HOME": str(tmp_path), "COLUMNS": "160"}
    shell = Shell(CHECKOUT, environment, {}, tmp_path / "shell")
    for block in followed("checkout", page):
        shell.follow(block)


def test_the_environment_of_the_pages_is_not_that_of_the_checkout(shell: Shell) -> None:
    code, output = shell.run("python -c 'import sys, numpy, scheduler; print(sys.prefix, scheduler.__file__)'")
    assert code == 0, output
    prefix, file = output.split()
    assert prefix == f"{shell.directory}/.venv"
    assert file.startswith(prefix)
    assert prefix != sys.prefix
    code, output = shell.run("python -c 'import pytest'")
    assert "No module named 'pytest'" in output
