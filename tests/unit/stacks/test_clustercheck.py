"""What a preview asks the cluster, and what it makes of the answers."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from components.settings import CheckedConfiguration
from devcluster.pki import CertificateAuthority
from scheduler.catalog import OPERATOR_NAMESPACE as NAMESPACE
from scheduler.config import image_flavour, load_configuration
from stacks.clusteraccess import ClusterReader, Late, NotAsked
from stacks.clustercheck import Answers, SharedObject, ask, judge, shared_objects
from stacks.kubeconfig import Context, context_of
from stacks.settings import ClusterSettings, StackSettings

HEAD = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: mine\n"
)
IMAGE = "quay.io/example/secondary-scheduler/kube-scheduler:0.2.0"
GO_IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.29.7"
PART_OF, INSTANCE = "app.kubernetes.io/part-of", "app.kubernetes.io/instance"
NAMESPACES = "/api/v1/namespaces"
POD_GROUPS = "podgroups.scheduling.x-k8s.io"
SHARED = {
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/secondaryschedulers.operator.openshift.io": (
        "CustomResourceDefinition secondaryschedulers.operator.openshift.io"
    ),
    "/apis/scheduling.k8s.io/v1/priorityclasses/secondary-scheduler": "PriorityClass secondary-scheduler",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/secondary-scheduler:base": "ClusterRole secondary-scheduler:base",
}
"""What a cluster has once, as the messages name it, by its path."""
LIVE = {
    f"urn:pulumi:prod::p::secondary-scheduler:components:Namespace$kubernetes:core/v1:Namespace::{NAMESPACE}": {
        "type": "kubernetes:core/v1:Namespace",
        "outputs": {"metadata": {"name": NAMESPACE}},
    }
}


def namespace(owner: str | None = None, name: str = NAMESPACE) -> dict[str, Any]:
    labels = {} if owner is None else {PART_OF: "secondary-scheduler", INSTANCE: owner}
    return {"metadata": {"name": name, "labels": labels}}


class FakeServer:
    """A fake API server: what each path answers, and what it was asked with."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {"/version": {"major": "1", "minor": "34+"}, NAMESPACES: {"items": []}}
        self.authorizations: set[str | None] = set()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.authorizations.add(self.headers.get("Authorization"))
                answer = fake.answers.get(self.path.partition("?")[0], 404)
                self.send_response(answer if isinstance(answer, int) else 200)
                self.end_headers()
                content: Any = {} if isinstance(answer, int) else answer
                self.wfile.write(content if isinstance(content, bytes) else json.dumps(content).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def context(self, user: Mapping[str, Any] | None = None) -> Context:
        return Context("c", {"server": self.address}, user or {})


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    server = FakeServer()
    yield server
    server.server.shutdown()
    server.server.server_close()


def described(**settings: Any) -> tuple[StackSettings, CheckedConfiguration]:
    """The settings of a stack, and a configuration that needs the CRD of PodGroup."""
    document = {"schedulerImage": IMAGE, **settings}
    flavour = image_flavour(document["schedulerImage"])
    loaded = load_configuration(HEAD, source="a test", flavour=flavour)
    return StackSettings.model_validate(document), CheckedConfiguration(HEAD, loaded, crds=(POD_GROUPS,))


def problems(
    answers: Answers, *, stack: str = "prod", state: Mapping[str, Any] | None = None, **settings: Any
) -> list[tuple[str, str]]:
    """Severity and text."""
    judged = judge(answers, stack, *described(**settings), state or {})
    return [(problem.severity, str(problem)) for problem in judged]


def test_an_empty_cluster_is_asked_with_the_token_and_nothing_is_in_the_way(fake: FakeServer) -> None:
    answers = ask(fake.context({"token": "t"}), NAMESPACE)
    assert (answers.version, answers.namespace, answers.unknown) == ("1.34", None, [])
    assert fake.authorizations == {"Bearer t"}
    assert problems(answers) == []


def test_a_second_stack_is_told_whose_the_namespace_is_and_what_runs_there(fake: FakeServer) -> None:
    image = {"spec": {"template": {"spec": {"containers": [{"image": "a/operator:1\x1b[2J"}]}}}}
    fake.answers[NAMESPACES] = {"items": [namespace("first")]}
    fake.answers[f"{NAMESPACES}/{NAMESPACE}"] = namespace("first")
    fake.answers[f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/secondary-scheduler-operator"] = image
    answers = ask(fake.context(), NAMESPACE)
    ((severity, text),) = problems(answers, stack="second")
    assert severity == "error"
    assert f"namespace {NAMESPACE} exists on the cluster (stack first made it), and runs " in text
    assert "secondary-scheduler-operator (a/operator:1?[2J)" in text
    assert problems(answers, stack="first", state=LIVE) == []
    assert problems(answers, stack="second", installMode="none") == []
    assert problems(answers, stack="second", adoptExisting=True) == []


@pytest.mark.parametrize("labels", [{}, {INSTANCE: "somebody"}])
def test_a_namespace_that_no_stack_made_is_not_said_to_be_a_stacks(labels: dict[str, str]) -> None:
    answers = Answers(namespace={"metadata": {"name": NAMESPACE, "labels": labels}})
    ((_, text),) = problems(answers)
    assert "(it is not in this stack's state)" in text


def test_another_installation_elsewhere_is_named() -> None:
    ((severity, text),) = problems(Answers(owners={"team-b": "other"}))
    assert severity == "warning", "a tenant's label keeps nobody from installing"
    assert "there is another installation on the cluster, in namespace team-b (stack other)" in text


@pytest.mark.parametrize("path", SHARED)
def test_what_a_cluster_has_once_and_another_stack_made_is_refused(fake: FakeServer, path: str) -> None:
    fake.answers[NAMESPACES] = {"items": [namespace("first")]}
    fake.answers[path] = namespace("first", name="any")
    second: dict[str, Any] = {"namespace": "second-ns"}
    answers = ask(fake.context(), "second-ns", shared_objects(*described(**second)))
    ((severity, text),) = problems(answers, stack="second", **second)
    assert severity == "error"
    assert f"{SHARED[path]} exists on the cluster (made by stack first)" in text
    assert "operator.instances in its stack; installMode: none and optionalObjects.priorityClass: false in this" in text
    assert problems(answers, stack="second", adoptExisting=True, **second) == []
    assert problems(answers, stack="second", state=LIVE, **second) == []


def test_all_that_a_second_stack_meets_is_one_line_per_owner(fake: FakeServer) -> None:
    for path in SHARED:
        fake.answers[path] = namespace("first", name="any")
    ((_, text),) = problems(ask(fake.context(), NAMESPACE, shared_objects(*described())), stack="second")
    assert all(each in text for each in SHARED.values())


def test_what_an_earlier_install_left_is_not_said_to_be_a_stacks(fake: FakeServer) -> None:
    (path, *_) = SHARED
    fake.answers[path] = {"metadata": {"name": "any"}}
    ((_, text),) = problems(ask(fake.context(), NAMESPACE, shared_objects(*described())))
    assert "exists on the cluster (not in this stack's state)" in text
    assert "if an earlier install left them, take them over with adoptExisting: true" in text


def test_a_crd_that_is_going_is_not_in_the_way(fake: FakeServer) -> None:
    (path, *_) = SHARED
    fake.answers[path] = {"metadata": {"deletionTimestamp": "2026-11-01T00:00:00Z"}}
    assert problems(ask(fake.context(), NAMESPACE, shared_objects(*described()))) == []


def test_a_plugins_crd_that_somebody_keeps_is_told_with_its_setting(fake: FakeServer) -> None:
    fake.answers[f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{POD_GROUPS}"] = {"metadata": {}}
    ((severity, text),) = problems(ask(fake.context(), NAMESPACE, shared_objects(*described())))
    assert severity == "error"
    assert f"CustomResourceDefinition {POD_GROUPS} exists on the cluster" in text
    assert "installPluginCrds: false" in text


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        ({}, ["CustomResourceDefinition", "PriorityClass", "ClusterRole"]),
        ({"installMode": "direct"}, ["PriorityClass", "ClusterRole"]),
        ({"installMode": "none"}, ["PriorityClass"]),
        ({"installMode": "none", "optionalObjects": {"priorityClass": False}}, []),
    ],
)
def test_only_what_the_stack_would_make_is_asked_for(settings: dict[str, Any], kinds: list[str]) -> None:
    objects = shared_objects(*described(installPluginCrds=False, **settings))
    assert [shared.kind for shared in objects] == kinds


def test_a_scheduler_of_another_stacks_operator_is_told_how_to_share_the_priority_class() -> None:
    priority = SharedObject("PriorityClass", "secondary-scheduler")
    ((_, text),) = problems(Answers(shared={priority: namespace("first")}), installMode="none")
    assert "set optionalObjects.priorityClass: false" in text


def test_a_namespace_that_is_going_is_not_in_the_way(fake: FakeServer) -> None:
    going = namespace("first")
    going["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    fake.answers[f"{NAMESPACES}/{NAMESPACE}"] = going
    assert problems(ask(fake.context(), NAMESPACE)) == []


@pytest.mark.parametrize(("check", "severities"), [("warn", ["warning"]), ("fail", ["error"]), ("off", [])])
def test_an_image_too_old_for_the_cluster_is_told_as_the_stack_wants(check: str, severities: list[str]) -> None:
    judged = problems(Answers(version="1.37"), schedulerImage=GO_IMAGE, installMode="direct", compatibilityCheck=check)
    assert [severity for severity, _ in judged] == severities
    assert all("schedulerImage" in text and "1.37" in text for _, text in judged)


def test_a_version_that_the_stack_names_wrong_is_told() -> None:
    ((severity, text),) = problems(Answers(version="1.37"), cluster={"kubernetesVersion": "1.34"})
    assert (severity, "the cluster has Kubernetes 1.37, not 1.34" in text) == ("warning", True)
    assert problems(Answers(version="1.34"), cluster={"kubernetesVersion": "1.34.2"}) == []


def test_what_there_is_no_right_to_read_is_named_and_the_rest_is_checked(fake: FakeServer) -> None:
    fake.answers[NAMESPACES] = 403
    answers = ask(fake.context(), NAMESPACE)
    (line,) = answers.unknown
    assert line == (
        f"another installation and the owner of namespace {NAMESPACE} (there is no right to read {NAMESPACES})"
    )
    assert answers.version == "1.34"


def test_each_object_that_may_not_be_read_is_named(fake: FakeServer) -> None:
    (first, *others) = SHARED
    fake.answers |= {first: 403, others[0]: namespace("first", name="any")}
    answers = ask(fake.context(), NAMESPACE, shared_objects(*described()))
    assert answers.unknown == [f"whether another stack made {SHARED[first]} (there is no right to read {first})"]
    ((_, text),) = problems(answers, stack="second")
    assert SHARED[others[0]] in text


def refused(context: Context | None, seconds: float = 5.0) -> str:
    with pytest.raises(NotAsked) as raised:
        ask(context, NAMESPACE, seconds=seconds)
    return str(raised.value)


def test_a_server_that_is_silent_costs_no_more_than_the_patience() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        context = Context("c", {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}, {})
        assert refused(context, 0.1) == "it does not answer within 0.1 s"


def test_a_cluster_that_is_not_there_or_refuses_says_why(fake: FakeServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    assert refused(Context("c", {"server": address}, {})) == "Connection refused"
    fake.answers["/version"] = 401
    assert refused(fake.context({"token": "secret-token"})) == "it does not accept the credentials"
    assert refused(None) == "there is no kubeconfig for it"


@pytest.mark.parametrize(
    ("cluster", "user", "reason"),
    [
        ({"proxy-url": "http://p"}, {}, "a kubeconfig with proxy-url is not read here"),
        ({}, {"as": "root"}, "a kubeconfig with as is not read here"),
        ({"server": "nonsense"}, {}, "its kubeconfig has no address"),
        ({}, {"tokenFile": "/absent"}, "its credentials cannot be read: No such file or directory"),
        ({}, {"exec": {"command": "/absent"}}, "its credentials cannot be read: No such file or directory"),
        ({"certificate-authority-data": "AAA"}, {}, "its credentials cannot be read: "),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_here_says_what_of_it(
    cluster: dict[str, Any], user: dict[str, Any], reason: str
) -> None:
    assert refused(Context("c", {"server": "https://127.0.0.1:1", **cluster}, user)).startswith(reason)


def plugin(directory: Path, body: str) -> dict[str, Any]:
    file = directory / "plugin"
    file.write_text(f"#!{sys.executable}\nimport json, os\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"command": str(file), "env": [{"name": "TOKEN", "value": "from-a-plugin"}]}}


def test_the_credentials_of_a_plugin_are_used(fake: FakeServer, tmp_path: Path) -> None:
    body = "print(json.dumps({'status': {'token': os.environ['TOKEN']}}))"
    ask(fake.context(plugin(tmp_path, body)), NAMESPACE)
    assert fake.authorizations == {"Bearer from-a-plugin"}


@pytest.mark.parametrize(
    ("body", "reason"), [("raise SystemExit(1)", "gives no credentials"), ("print('hello')", "gives no ExecCredential")]
)
def test_a_plugin_that_fails_is_named(fake: FakeServer, tmp_path: Path, body: str, reason: str) -> None:
    assert refused(fake.context(plugin(tmp_path, body))) == f"{tmp_path / 'plugin'} {reason}"


def test_files_of_a_kubeconfig_are_relative_to_it(fake: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("beside\n")
    entries: dict[str, Any] = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": fake.address}}],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
    }
    (tmp_path / "config").write_text(json.dumps(entries))
    context = context_of(ClusterSettings(), None, {"KUBECONFIG": str(tmp_path / "config")})
    ask(context, NAMESPACE)
    assert fake.authorizations == {"Bearer beside"}


def test_a_name_and_a_password_are_sent_as_basic_authentication(fake: FakeServer) -> None:
    ask(fake.context({"username": "u", "password": "p"}), NAMESPACE)
    assert fake.authorizations == {"Basic " + base64.b64encode(b"u:p").decode()}


@pytest.mark.parametrize("answer", [[], "text", b"<html>"])
def test_an_answer_of_something_else_is_no_answer(fake: FakeServer, answer: Any) -> None:
    fake.answers["/version"] = answer
    with pytest.raises(NotAsked) as raised:
        ClusterReader(fake.context(), 5.0).get("/version")
    assert str(raised.value) == "/version is not answered as Kubernetes does"


@pytest.mark.parametrize("status", [302, 500])
def test_no_redirect_is_followed_and_no_error_taken_for_an_answer(fake: FakeServer, status: int) -> None:
    fake.answers["/version"] = status
    assert refused(fake.context({"token": "secret-token"})) == f"/version is answered with status {status}"


@pytest.mark.parametrize("in_files", [True, False])
def test_over_tls_the_server_is_verified_and_shown_the_certificate(tmp_path: Path, in_files: bool) -> None:
    authority = CertificateAuthority("ours")
    serving, pair = authority.server("server", [], ["127.0.0.1"]), authority.client("jane")
    (tmp_path / "serving").write_bytes(serving.certificate + serving.key)
    (tmp_path / "ca").write_bytes(authority.pair.certificate)
    (tmp_path / "client").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "serving")
    tls.load_verify_locations(tmp_path / "ca")
    tls.verify_mode = ssl.CERT_REQUIRED
    users: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            certificate = self.connection.getpeercert()  # type: ignore[attr-defined]
            users.append(dict(entry[0] for entry in certificate["subject"])["commonName"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    def entry(name: str, file: str) -> dict[str, str]:
        content = base64.b64encode((tmp_path / file).read_bytes()).decode()
        return {name: str(tmp_path / file)} if in_files else {f"{name}-data": content}

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        address = f"https://127.0.0.1:{server.server_address[1]}"
        user = {**entry("client-certificate", "client"), **entry("client-key", "key")}
        trusting = Context("c", {"server": address, **entry("certificate-authority", "ca")}, user)
        assert ClusterReader(trusting, 5.0).get("/version") == {}
        strangers = base64.b64encode(CertificateAuthority("strangers").pair.certificate).decode()
        with pytest.raises(NotAsked, match="certificate verify failed"):
            ClusterReader(Context("c", {"server": address, "certificate-authority-data": strangers}, user), 5.0).get(
                "/"
            )
        insecure = Context("c", {"server": address, "insecure-skip-tls-verify": True}, user)
        assert ClusterReader(insecure, 5.0).get("/version") == {}
        server.shutdown()
        thread.join()
    assert users == ["jane", "jane"]


def test_a_read_that_is_not_answered_ends_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        context = Context("c", {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}, {})
        with pytest.raises(Late):
            ClusterReader(context, 0.2).get("/version")


def test_without_a_certificate_the_server_is_asked_over_tls_all_the_same() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"https://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(NotAsked, match="Connection refused"):
        ClusterReader(Context("c", {"server": address}, {}), 5.0).get("/version")


def test_an_api_server_below_a_path_is_asked_there_and_for_json(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, str, Any]] = []
    original = http.client.HTTPConnection.request

    def note(connection: Any, method: str, target: str, headers: Any) -> None:
        sent.append((method, target, headers))
        original(connection, method, target, headers=headers)

    monkeypatch.setattr(http.client.HTTPConnection, "request", note)
    fake.answers["/k8s/version"] = {"major": "1"}
    context = Context("c", {"server": f"{fake.address}/k8s/"}, {"token": "t"})
    assert ClusterReader(context, 5.0).get("/version") == {"major": "1"}
    ((method, target, headers),) = sent
    assert (method, target) == ("GET", "/k8s/version")
    assert headers["Accept"] == "application/json"
    assert headers["Authorization"] == "Bearer t"
