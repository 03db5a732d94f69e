"""The control plane alone, as most integration tests use it."""

from __future__ import annotations

import json

import pytest
import requests

from devcluster.cluster import LocalCluster

pytestmark = pytest.mark.integration


def admin(cluster: LocalCluster) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.verify = str(cluster.layout.pki("ca.crt"))
    session.cert = (str(cluster.layout.pki("admin.crt")), str(cluster.layout.pki("admin.key")))
    return session


def test_a_pods_service_account_and_root_ca_are_there_from_the_start(control_plane: LocalCluster) -> None:
    session = admin(control_plane)
    default = f"{control_plane.api_server}/api/v1/namespaces/default"
    token = session.post(
        f"{default}/serviceaccounts/default/token",
        json={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    ).json()["status"]["token"]
    published = session.get(f"{default}/configmaps/kube-root-ca.crt").json()["data"]["ca.crt"]
    assert published == control_plane.layout.pki("ca.crt").read_text()
    review = requests.post(
        f"{control_plane.api_server}/apis/authentication.k8s.io/v1/selfsubjectreviews",
        json={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        headers={"Authorization": f"Bearer {token}"},
        verify=str(control_plane.layout.pki("ca.crt")),
    )
    assert review.json()["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"


def test_the_audit_log_names_the_node_of_a_binding_and_holds_no_secret_value(control_plane: LocalCluster) -> None:
    session = admin(control_plane)
    default = f"{control_plane.api_server}/api/v1/namespaces/default"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "audited"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"},
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "audited"}, "stringData": {"k": "hunter2"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "audited-node"}}
    binding = {"metadata": {"name": "audited"}, "target": {"kind": "Node", "name": "audited-node"}}
    assert session.post(f"{default}/secrets", json=secret).status_code == 201
    assert session.post(f"{control_plane.api_server}/api/v1/nodes", json=node).status_code == 201
    assert session.post(f"{default}/pods", json=pod).status_code == 201
    assert session.post(f"{default}/pods/audited/binding", json=binding).status_code == 201
    session.delete(f"{default}/pods/audited", json={"gracePeriodSeconds": 0})
    session.delete(f"{default}/secrets/audited")
    session.delete(f"{control_plane.api_server}/api/v1/nodes/audited-node")

    text = control_plane.audit_log.read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    references = [(entry, entry.get("objectRef", {})) for entry in entries]
    bindings = [
        entry
        for entry, reference in references
        if (reference.get("subresource"), reference.get("name")) == ("binding", "audited")
    ]
    assert [entry["requestObject"]["target"]["name"] for entry in bindings] == ["audited-node"]
    assert any(reference.get("resource") == "secrets" and entry["verb"] == "create" for entry, reference in references)
    assert "hunter2" not in text


def test_private_files_are_readable_by_their_owner_only(control_plane: LocalCluster) -> None:
    private = [
        control_plane.kubeconfig,
        control_plane.readonly_kubeconfig,
        *(control_plane.state_dir / "pki").iterdir(),
    ]
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in private} == {path.name: "0o600" for path in private}
