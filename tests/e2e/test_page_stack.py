"""A stack with `page`: its pod serves a visitor what that one may read, with the load of the stack's source; it goes
with the setting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from scheduler import __version__
from secondary_scheduler.page.rights import AUDIENCE
from secondary_scheduler.page.site import COOKIE
from tests.support.live_stack import NAME, NAMESPACE, Live, live_stack
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"),
]
PAGE = f"{NAME}-page"
IMAGE = f"localhost/secondary-scheduler/operator:{__version__}"


@pytest.fixture
def live(cluster_state_root: Path, tmp_path: Path) -> Iterator[Live]:
    with live_stack(cluster_state_root, tmp_path, "page") as stack:
        yield stack


def viewer(live: Live) -> str:
    """A token of an account that may get nodes and list the pods of `default`, for the page only."""
    metadata = {"metadata": {"name": "page-viewer"}}
    subjects = [{"kind": "ServiceAccount", "name": "page-viewer", "namespace": "default"}]
    live.core.create_namespaced_service_account("default", metadata)
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]
    live.rbac.create_cluster_role({**metadata, "rules": rules})
    group = "rbac.authorization.k8s.io"
    of_nodes = {"apiGroup": group, "kind": "ClusterRole", "name": "page-viewer"}
    live.rbac.create_cluster_role_binding({**metadata, "roleRef": of_nodes, "subjects": subjects})
    of_pods = {"apiGroup": group, "kind": "ClusterRole", "name": "view"}
    live.rbac.create_namespaced_role_binding("default", {**metadata, "roleRef": of_pods, "subjects": subjects})
    request = {"spec": {"expirationSeconds": 600, "audiences": [AUDIENCE]}}
    token: str = live.core.create_namespaced_service_account_token("page-viewer", "default", request).status.token
    return token


def test_the_page_of_a_stack_serves_a_viewer_and_goes_with_its_setting(live: Live) -> None:
    token, before = viewer(live), live.cluster_scoped()
    live.up(page={"image": IMAGE, "hosts": ["scheduling.example.com"]})
    assert PAGE in live.deployments()
    (pod,) = live.core.list_namespaced_pod(NAMESPACE, label_selector=f"app={PAGE}").items
    address = f"https://{pod.status.pod_ip}:8443"

    def send(path: str, host: str = "scheduling.example.com", **form: str) -> requests.Response:
        origin = {"Origin": f"https://{host}"} if form else {}
        return requests.request(
            "POST" if form else "GET",
            address + path,
            headers={"Host": host, "Cookie": cookie, **origin},
            data=form or None,
            verify=False,
            allow_redirects=False,
            timeout=PATIENCE_SECONDS,
        )

    cookie = ""
    assert send("/nodes", f"{PAGE}.{NAMESPACE}.svc").headers["Location"] == "/login"
    assert send("/nodes", "evil.example.com").status_code == 421
    cookie = f"{COOKIE}={send('/login', token=token).cookies[COOKIE]}"
    nodes = send("/nodes")
    assert nodes.status_code == 200, nodes.text
    assert "sim-000" in nodes.text
    assert "by measured load of CPU" in nodes.text, "the load of the stack's source"
    assert send("/in/default/queue").status_code == 200
    assert send(f"/in/{NAMESPACE}/queue").status_code == 403
    log = live.core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE)
    assert token not in log
    assert "Traceback" not in log
    live.nothing_to_change()
    live.up(page={})
    assert PAGE not in live.deployments()
    assert not {name for name in live.cluster_scoped() - before if PAGE in name}
