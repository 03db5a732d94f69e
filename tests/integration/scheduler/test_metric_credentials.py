"""Who writes the ConfigMap obtains no token: the real daemon, on a real API server, with a foreign server as source."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from devcluster import pki
from devcluster.cluster import LocalCluster
from tests.faults.server import BreakablePrometheus
from tests.support.daemon import Cluster, RunningDaemon, configuration, daemon
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration]

NAME = "credentials"
TOKEN = "canary-of-the-service-account"


class Foreign:
    """A plain HTTP server that keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        seen = self.shown

        class Requests(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append(str(self.headers))
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def foreign() -> Iterator[Foreign]:
    server = Foreign()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture(scope="module")
def cluster(control_plane: LocalCluster) -> Iterator[Cluster]:
    cluster = Cluster(control_plane.kubeconfig, NAME)
    yield cluster
    cluster.remove()


def reading(address: str, **load: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Plugin args that name a source, and the options to read it with."""
    args = {"metricProvider": {"type": "Prometheus", "address": address}}
    options = {"load": {"refreshSeconds": 1, "timeoutSeconds": 1, **load}}
    return {"name": "TargetLoadPacking", "args": args}, {"name": "SecondarySchedulerOptions", "args": options}


def reason(running: RunningDaemon) -> str:
    """Why there is no load, as the log says once."""
    event = "load data are not fresh; pods are placed without them"
    eventually(lambda: running.records(event), "it says why there is no load")
    return str(running.records(event)[0]["reason"])


def test_a_foreign_server_named_in_the_config_map_gets_no_token(
    control_plane: LocalCluster, cluster: Cluster, foreign: Foreign, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    content = configuration(control_plane.kubeconfig, NAME, *reading(foreign.url, tokenFile=str(token)))
    with daemon(tmp_path, content) as running:
        message = reason(running)
        assert TOKEN not in "".join(foreign.shown)
        assert f'"{token}" is not below /var/run/secrets/secondary-scheduler/metrics' in message
        cluster.place(NAME)
        assert running.get("/readyz").text == "ok", "pods are placed without load"
    assert not foreign.shown
    assert TOKEN not in running.log


def test_the_service_accounts_token_goes_only_where_the_deployment_says(
    control_plane: LocalCluster, cluster: Cluster, foreign: Foreign, tmp_path: Path
) -> None:
    authority = pki.CertificateAuthority("service-ca")
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(TOKEN)
    (account / "service-ca.crt").write_bytes(authority.pair.certificate)
    files = {"tokenFile": str(account / "token"), "caFile": str(account / "service-ca.crt")}
    with contextlib.ExitStack() as opened:
        thanos = BreakablePrometheus(authority.server("thanos", [], ["127.0.0.1"]), tmp_path, TOKEN)
        opened.callback(thanos.stop)
        thanos.loads = {NAME: 0.5}
        permission = (
            f"--metric-service-account-token={account / 'token'}",
            f"--metric-credentials-address={thanos.url}",
        )
        permitted = configuration(control_plane.kubeconfig, NAME, *reading(thanos.url, **files))
        with daemon(tmp_path, permitted, *permission) as running:
            eventually(lambda: running.records("load data are fresh"), "the permitted source is read")
        assert thanos.authorizations == {f"Bearer {TOKEN}"}
        elsewhere = configuration(control_plane.kubeconfig, NAME, *reading(foreign.url, **files))
        with daemon(tmp_path, elsewhere, *permission) as running:
            assert "over https only" in reason(running)
        thanos.authorizations.clear()
        same_server = configuration(control_plane.kubeconfig, NAME, *reading(f"{thanos.url}/tenant", **files))
        with daemon(tmp_path, same_server, *permission) as running:
            assert f"the token is for {thanos.url}" in reason(running)
        assert not thanos.authorizations
    assert not foreign.shown
