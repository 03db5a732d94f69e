"""An operator under its real rights, one per module, and one instance per test."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components._operator_rules import cluster_rules, namespace_rules
from scheduler.catalog import static_cluster_roles
from secondary_scheduler.kube.client import AlreadyExists, NotFound
from tests.integration.controller.support import Api, Operator, TestKubelet, as_rules, install_crd, until

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def api(control_plane: Any) -> Iterator[Api]:
    """The administrator's view of a namespace of this module's own."""
    namespace = f"operator-{os.getpid()}-{next(_numbers)}"
    api = Api(control_plane.kubeconfig, namespace)
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    install_crd(api)
    for name, rules in as_rules(static_cluster_roles()):
        with contextlib.suppress(AlreadyExists):
            api.call("POST", f"{_RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    yield api
    with contextlib.suppress(NotFound):
        api.call("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture(scope="module")
def operator_kubeconfig(api: Api, control_plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A kubeconfig with the rights that the install gives the operator, and no more."""
    rules = {"clusterrole": cluster_rules(static_cluster_roles(), api.namespace), "role": namespace_rules()}
    name = f"operator-of-{api.namespace}"
    api.create("serviceaccounts", "secondary-scheduler-operator")
    api.call("POST", f"{_RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules["clusterrole"]})
    api.create("roles", name, rules=rules["role"])
    subject = {"kind": "ServiceAccount", "name": "secondary-scheduler-operator", "namespace": api.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": {**reference, "kind": "ClusterRole"}, "subjects": [subject]}
    api.call("POST", f"{_RBAC}/clusterrolebindings", binding)
    api.create("rolebindings", name, roleRef={**reference, "kind": "Role"}, subjects=[subject])
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = api.call("POST", api.path("serviceaccounts", "secondary-scheduler-operator") + "/token", request)
    config = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    for user in config["users"]:
        user["user"] = {"token": answer["status"]["token"]}
    path = tmp_path_factory.mktemp("operator") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    yield path
    api.call("DELETE", f"{_RBAC}/clusterrolebindings/{name}")
    api.call("DELETE", f"{_RBAC}/clusterroles/{name}")


@pytest.fixture(scope="module")
def operator(api: Api, operator_kubeconfig: Path) -> Iterator[Operator]:
    """The running operator."""
    operator = Operator(operator_kubeconfig, api.namespace, operator_kubeconfig.parent / "operator.log")
    operator.start()
    operator.wait_until_leading()
    yield operator
    assert operator.end() == 0


@pytest.fixture
def kubelet(control_plane: Any, api: Api) -> Iterator[TestKubelet]:
    """Makes the scheduler's pods ready for the time of the test."""
    kubelet = TestKubelet(control_plane.kubeconfig, api.namespace)
    kubelet.start()
    yield kubelet
    kubelet.stop()


@pytest.fixture
def clean(api: Api, operator: Operator) -> Iterator[None]:
    """Deletes the instance and its ConfigMap after the test, and sees that nothing of it is left."""
    yield
    if operator.process is not None and operator.process.poll() is not None:
        operator.start()
        operator.wait_until_leading()
    api.delete("secondaryschedulers", "cluster")
    api.delete("configmaps", "config")
    until(lambda: api.get("secondaryschedulers", "cluster") is None, 15, "instance gone")
    assert not api.cluster_role_bindings()
