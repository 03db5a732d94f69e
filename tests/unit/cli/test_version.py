"""`secondary-scheduler version`: of the command line, of the cluster and of what runs there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from typer.testing import CliRunner, Result

from scheduler import __version__
from secondary_scheduler.cli import app
from secondary_scheduler.cli.errors import CommandError
from tests.unit.scheduler.load.fakes import send, service

NAMESPACE = "openshift-secondary-scheduler-operator"


def deployment(namespace: str, name: str, command: str, image: str, ready: int) -> dict[str, Any]:
    containers = [{"name": "c", "command": [command], "image": image}]
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"replicas": 2, "template": {"spec": {"containers": containers}}},
        "status": {"readyReplicas": ready},
    }


DEPLOYMENTS = [
    deployment(NAMESPACE, "secondary-scheduler", "/bin/kube-scheduler", "example.com/kube-scheduler:1", 2),
    deployment(NAMESPACE, "secondary-scheduler-operator", "secondary-scheduler-operator", "example.com/operator:1", 0),
    deployment(NAMESPACE, "web", "/bin/web", "example.com/web:1", 1),
    deployment("mine", "mine", "kube-scheduler", "example.com/mine:1", 1),
]


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        path = urlsplit(handler.path).path
        if path == "/version":
            send(handler, b'{"gitVersion": "v1.34.4"}')
        elif path.endswith("/deployments"):
            parts = path.split("/")
            wanted = parts[parts.index("namespaces") + 1] if "namespaces" in parts else None
            items = [item for item in DEPLOYMENTS if wanted in (None, item["metadata"]["namespace"])]
            send(handler, json.dumps({"items": items}).encode())

    with service() as api:
        api.answer = answer
        file = tmp_path / "kubeconfig"
        file.write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                    "clusters": [{"name": "c", "cluster": {"server": api.url}}],
                }
            )
        )
        yield file


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app.build(["version"]), ["version", *arguments])


def test_it_names_client_kubernetes_operator_and_scheduler(kubeconfig: Path) -> None:
    done = call("--kubeconfig", str(kubeconfig))
    assert done.exit_code == 0
    first, second, *components = done.stdout.splitlines()
    assert first == f"Client Version: {__version__}"
    assert second.startswith("Kubernetes Version: v1.34.4 (http://")
    assert components == [
        f"Operator: example.com/operator:1 ({NAMESPACE}/secondary-scheduler-operator, 0/2 ready)",
        f"Scheduler: example.com/kube-scheduler:1 ({NAMESPACE}/secondary-scheduler, 2/2 ready)",
    ]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("-n", "mine"), ["mine"]),
        (("-A",), ["secondary-scheduler-operator", "mine", "secondary-scheduler"]),
        (("-n", "empty"), []),
    ],
)
def test_the_namespace_is_chosen_as_with_kubectl(kubeconfig: Path, options: tuple[str, ...], names: list[str]) -> None:
    for form in ("json", "yaml"):
        done = call("--kubeconfig", str(kubeconfig), *options, "-o", form)
        document = yaml.safe_load(done.stdout)
        assert [component["name"] for component in document["components"]] == names
        assert ("name another with --namespace" in done.stderr) is (not names)


def test_without_the_cluster_it_needs_none() -> None:
    done = call("--client")
    assert (done.exit_code, done.stdout) == (0, f"Client Version: {__version__}\n")


def test_a_cluster_that_does_not_answer_is_an_error_after_the_client_s_version(tmp_path: Path) -> None:
    done = call("--kubeconfig", str(tmp_path / "absent"))
    assert done.stdout == f"Client Version: {__version__}\n"
    assert isinstance(done.exception, CommandError)
    assert str(done.exception) == f"{tmp_path / 'absent'}: No such file or directory"
