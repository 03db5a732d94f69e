"""What preflight finds to check, and that it closes its connection when there is nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from scheduler.kube.client.sync import SyncConnection
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.preflight import target
from secondary_scheduler.cli.preflight.target import PreflightRequest, find_targets
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
        request = PreflightRequest(None, None, None, None, None, None, selector, kubeconfig, None)
        with pytest.raises(CommandError, match=reason.replace("(", r"\(")), find_targets(request):
            pass
    assert calls[-1] == "close"
