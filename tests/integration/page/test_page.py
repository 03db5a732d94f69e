"""The page beside a real API server, with the rights that the installation gives it: who sees what, by their tokens."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster.cluster import LocalCluster
from scheduler.catalog import page_rules
from secondary_scheduler.page.rights import AUDIENCE
from secondary_scheduler.page.site import COOKIE
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning"),
]
HOST = "page.example.com"
OURS, THEIRS, OURSELVES = "page-ours", "page-theirs", "page-scheduler"
RBAC = "rbac.authorization.k8s.io"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
"""


@dataclass(frozen=True)
class Api:
    """The API server, as its administrator."""

    core: kubernetes.CoreV1Api
    rbac: kubernetes.RbacAuthorizationV1Api

    def account(self, name: str) -> None:
        self.core.create_namespaced_service_account(OURSELVES, {"metadata": {"name": name}})

    def token(self, name: str, *audiences: str) -> str:
        spec = {"expirationSeconds": 600, **({"audiences": list(audiences)} if audiences else {})}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = self.core.create_namespaced_service_account_token(name, OURSELVES, request)
        token: str = answer.status.token
        return token

    def grant(self, account: str, rules: list[dict[str, Any]], namespace: str = "") -> None:
        subjects = [{"kind": "ServiceAccount", "name": account, "namespace": OURSELVES}]
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": f"test-{account}"}
        reference = {"apiGroup": RBAC, "kind": kind, "name": metadata["name"]}
        binding = {"metadata": metadata, "roleRef": reference, "subjects": subjects}
        if namespace:
            self.rbac.create_namespaced_role(namespace, {"metadata": metadata, "rules": rules})
            self.rbac.create_namespaced_role_binding(namespace, binding)
        else:
            self.rbac.create_cluster_role({"metadata": metadata, "rules": rules})
            self.rbac.create_cluster_role_binding(binding)


NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
CONFIG_MAP = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}


@pytest.fixture(scope="module")
def api(control_plane: LocalCluster) -> Iterator[Api]:
    client = kubernetes_config.new_client_from_config(str(control_plane.kubeconfig))
    api = Api(kubernetes.CoreV1Api(client), kubernetes.RbacAuthorizationV1Api(client))
    for namespace in (OURS, THEIRS, OURSELVES):
        api.core.create_namespace({"metadata": {"name": namespace}})
        eventually(lambda name=namespace: default_account(api, name), "the namespace's ServiceAccount")
    api.core.create_node({"metadata": {"name": "page-node", "labels": {"example.com/page": "yes"}}})
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "capacity": {"cpu": "4", "memory": "8Gi"}}
    api.core.patch_node_status("page-node", {"status": status})
    for namespace, name in ((OURS, "ours-pending"), (THEIRS, "canary-pending")):
        api.core.create_namespaced_pod(namespace, pod(name))
    api.core.create_namespaced_pod(THEIRS, pod("canary-placed", nodeName="page-node"))
    for name in ("page", "admin", "viewer", "stranger"):
        api.account(name)
    api.grant("page", [rule.to_dict() for rule in page_rules()])
    api.grant("admin", [NODES, PODS, CONFIG_MAP])
    api.grant("viewer", [PODS], OURS)
    api.grant("viewer", [NODES])
    yield api
    api.core.delete_node("page-node")
    for namespace in (OURS, THEIRS, OURSELVES):
        api.core.delete_namespace(namespace)


def default_account(api: Api, namespace: str) -> bool:
    return any(account.metadata.name == "default" for account in accounts(api, namespace))


def accounts(api: Api, namespace: str) -> list[Any]:
    return list(api.core.list_namespaced_service_account(namespace).items)


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "metadata": {"name": name, "labels": {"example.com/who": name}},
        "spec": {"schedulerName": "secondary-scheduler", "containers": [container], **spec},
    }


@dataclass(frozen=True)
class RunningPage:
    """A page that serves, and its log."""

    port: int
    log: Path

    def get(self, path: str, **headers: str) -> requests.Response:
        return self._send("GET", path, headers)

    def log_in(self, token: str) -> requests.Response:
        return self._send("POST", "/login", {"Origin": f"https://{HOST}"}, {"token": token})

    def as_session(self, token: str) -> dict[str, str]:
        answer = self.log_in(token)
        assert answer.status_code == 303, answer.text
        return {"Cookie": f"{COOKIE}={answer.cookies[COOKIE]}"}

    def _send(
        self, method: str, path: str, headers: dict[str, str], form: dict[str, str] | None = None
    ) -> requests.Response:
        url = f"https://127.0.0.1:{self.port}{path}"

        def answers() -> list[requests.Response]:
            response = requests.request(
                method,
                url,
                headers={"Host": HOST, **headers},
                data=form,
                verify=False,
                timeout=PATIENCE_SECONDS,
                allow_redirects=False,
            )
            # These tests come with more unknown tokens than one address may.
            return [] if response.status_code == 429 else [response]

        return eventually(answers, f"an answer to {path}", interval=1)[0]


@pytest.fixture(scope="module")
def page(api: Api, control_plane: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPage]:
    directory = tmp_path_factory.mktemp("page")
    kubeconfig = yaml.safe_load(control_plane.kubeconfig.read_text())
    for user in kubeconfig["users"]:
        user["user"] = {"token": api.token("page")}
    (directory / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    (directory / "config.yaml").write_text(CONFIGURATION)
    log = directory / "log"
    command = [
        *(sys.executable, "-m", "secondary_scheduler.page", "--host", HOST, "--listen", "127.0.0.1:0"),
        *("--probes", "127.0.0.1:0", "--config-map", f"{OURSELVES}/config-1"),
        *("--lease", f"{OURSELVES}/scheduler"),
        *("--config", str(directory / "config.yaml"), "--kubeconfig", str(directory / "kubeconfig")),
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            line = re.compile(r"on port (\d+); probes on port (\d+)")

            def serves() -> re.Match[str] | None:
                assert process.poll() is None, log.read_text()
                return line.search(log.read_text())

            yield RunningPage(int(eventually(serves, "the page serves")[1]), log)
        finally:
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()


def test_a_viewer_of_one_namespace_sees_its_pods_only(api: Api, page: RunningPage) -> None:
    session = page.as_session(api.token("viewer", AUDIENCE))
    node = page.get(f"/in/{OURS}/node?name=page-node", **session)
    assert node.status_code == 200, node.text
    assert "example.com/page" in node.text
    assert "1 pod of namespaces that you did not name" in node.text
    decisions = page.get(f"/in/{OURS}/decisions", **session)
    assert f"{OURS}/ours-pending" in decisions.text
    unnamed = page.get("/decisions", **session)
    assert "ours-pending" not in unnamed.text
    assert page.get(f"/in/{THEIRS}/decisions", **session).status_code == 403
    assert page.get("/configuration", **session).status_code == 403
    for answer in (node, decisions, unnamed):
        assert "canary" not in answer.text


def test_who_may_list_all_pods_sees_all(api: Api, page: RunningPage) -> None:
    session = page.as_session(api.token("admin", AUDIENCE))
    assert f"{THEIRS}/canary-pending" in page.get("/decisions", **session).text
    assert f"{THEIRS}/canary-placed" in page.get("/node?name=page-node", **session).text
    assert page.get("/configuration", **session).status_code == 200


def test_what_is_asked_for_a_visitor_is_what_its_own_token_may(api: Api, page: RunningPage) -> None:
    """The page itself may list leases nowhere, and none of its rights is lent."""
    viewer = {"Authorization": f"Bearer {api.token('viewer')}"}
    assert page.get("/", **viewer).headers["Location"] == "/health"
    health = page.get("/health", **viewer)
    assert health.status_code == 200
    assert f"this user needs to list leases in namespace {OURSELVES}" in health.text
    assert "who leads cannot be read" in page.get(f"/why?namespace={OURS}&name=ours-pending", **viewer).text.lower()
    session = page.as_session(api.token("viewer", AUDIENCE))
    assert page.get("/health", **session).status_code == 403


def test_a_strangers_token_is_refused(api: Api, page: RunningPage) -> None:
    known = page.log_in(api.token("stranger", AUDIENCE))
    assert known.status_code == 403
    for token in ("no-token-at-all", api.token("viewer", "somebody-else"), api.token("viewer", AUDIENCE)[:-4]):
        answer = page.log_in(token)
        assert (answer.status_code, answer.cookies.get(COOKIE)) == (401, None)
        assert page.get("/nodes", Authorization=f"Bearer {token}").status_code == 401


def audiences_of(token: str) -> list[str]:
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return list(claims["aud"])


def test_a_token_that_is_good_at_the_api_server_is_refused_in_the_form(api: Api, page: RunningPage) -> None:
    plain = api.token("viewer")
    for token in (plain, api.token("viewer", AUDIENCE, *audiences_of(plain))):
        answer = page.log_in(token)
        assert (answer.status_code, answer.cookies.get(COOKIE)) == (403, None), answer.text
        assert f"--audience {AUDIENCE}" in answer.text
    # A proxy passes it on as a header, and no session is made of it.
    proxied = page.get(f"/in/{OURS}/decisions", Authorization=f"Bearer {plain}")
    assert proxied.status_code == 200
    assert proxied.cookies.get(COOKIE) is None
    assert "ours-pending" in proxied.text
    assert page.get("/nodes", Authorization=f"Bearer {api.token('viewer', AUDIENCE)}").status_code == 401


def test_a_right_that_is_taken_away_is_gone(api: Api, page: RunningPage) -> None:
    api.account("leaving")
    api.grant("leaving", [NODES, PODS])
    session = page.as_session(api.token("leaving", AUDIENCE))
    assert f"{THEIRS}/canary-pending" in page.get("/decisions", **session).text
    api.rbac.delete_cluster_role_binding("test-leaving")
    # An answer of the API server counts for ten seconds.
    gone = eventually(lambda: page.get("/decisions", **session).status_code == 403, "no rights", interval=1)
    assert gone
    api.core.delete_namespaced_service_account("leaving", OURSELVES)
    eventually(lambda: page.get("/decisions", **session).status_code == 303, "no session", interval=1)


def test_the_log_holds_no_token_and_says_what_is_missing(api: Api, page: RunningPage) -> None:
    token = api.token("viewer", AUDIENCE)
    page.as_session(token)
    page.get("/nodes", Authorization=f"Bearer {token}")
    log = page.log.read_text()
    assert token not in log
    assert "canary" not in log
    assert "Traceback" not in log
