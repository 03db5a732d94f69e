"""What preflight finds to check, and that it closes its connection when there is nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from scheduler.kube.client.sync import SyncConnection
from scheduler.load import configured_sources
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.preflight import target
from secondary_scheduler.cli.preflight.target import PreflightRequest, find_targets
from secondary_scheduler.cli.stackfile import examine_stack
from tests.unit.scheduler.load.fakes import send, service


@pytest.mark.parametrize(
    ("selector", "reason"),
    [("", "nothing to check"), ("a=(", "--selector a=(")],
    ids=["no source and no OpenShift", "a selector that the API server refuses"],
)
def test_without_a_target_the_connection_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, selector: str, reason: str
) -> None:
    calls: list[str] = []

    class RecordedConnection(SyncConnection):
        def get(self, path: str, params: Mapping[str, str | int] | None = None) -> bytes:
            try:
                return super().get(path, params)
            finally:
                calls.append("get")

        def close(self) -> None:
            calls.append("close")
            super().close()

    monkeypatch.setattr(target, "SyncConnection", RecordedConnection)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        address = urlsplit(handler.path)
        if "labelSelector" in address.query:
            send(handler, json.dumps({"kind": "Status", "message": "bad selector", "code": 400}).encode(), 400)
        elif address.path == "/api/v1/nodes":
            send(handler, b'{"items": []}')
        else:
            send(handler, json.dumps({"kind": "Status", "message": "not found", "code": 404}).encode(), 404)

    with service() as api:
        api.answer = answer
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": {"server": api.url}}],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        request = PreflightRequest(None, None, None, None, None, selector, kubeconfig, None)
        with pytest.raises(CommandError, match=reason.replace("(", r"\(")), find_targets(request):
            pass
    assert calls[-1] == "close"


def test_of_a_stack_with_a_load_watcher_the_source_that_it_reads_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("TOKEN_FILE", str(tmp_path / "token"))
    (tmp_path / "token").write_text("t0ken")
    (tmp_path / "Pulumi.yaml").write_text("name: secondary-scheduler\n")
    source = {
        "type": "Prometheus",
        "address": "https://prometheus.example.com",
        "credentials": {"token": {"fromFileInEnv": "TOKEN_FILE"}},
        "loadWatcher": {"image": "registry.example.com/secondary-scheduler/operator:0.1.0"},
    }
    values = {
        "schedulerImage": "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7",
        "operatorImage": "registry.example.com/secondary-scheduler/operator:0.1.0",
        "metricProvider": source,
    }
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(json.dumps({"config": {f"secondary-scheduler:{key}": value for key, value in values.items()}}))
    examined = examine_stack(file, file.read_text())
    assert examined.problems == ()
    assert examined.credentials.token == "t0ken"
    assert examined.source is not None
    (settings,) = configured_sources(examined.source.profiles)[0].values()
    assert settings.address == "https://prometheus.example.com"
