"""An operator under its real rights, one per module, and one instance per test."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.kube.client import NotFound
from tests.integration.operator.rights import Rights, install_roles_of_schedulers
from tests.integration.operator.support import Api, Operator, TestKubelet, install_crd
from tests.support.waiting import eventually

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def api(control_plane: Any) -> Iterator[Api]:
    """The administrator's view of a namespace of this module's own."""
    namespace = f"operator-{os.getpid()}-{next(_numbers)}"
    api = Api(control_plane.kubeconfig, namespace)
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    install_crd(api)
    install_roles_of_schedulers(api)
    yield api
    with contextlib.suppress(NotFound):
        api.call("DELETE", f"/api/v1/namespaces/{namespace}")
    api.close()


@pytest.fixture(scope="module")
def rights(api: Api) -> Rights:
    """Whose instances the operator serves, beside `cluster` of the module's namespace, is the module's to say."""
    return Rights(api)


@pytest.fixture(scope="module")
def operator_kubeconfig(
    request: pytest.FixtureRequest, rights: Rights, control_plane: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A kubeconfig with the rights that the install gives the operator, and no more.

    In the end the audit log must say that nothing was refused, but for the resources that the module names in REFUSED;
    None where the rights themselves go.
    """
    rights.grant()
    yield rights.kubeconfig(control_plane, tmp_path_factory.mktemp("operator") / "kubeconfig")
    rights.withdraw()
    expected = getattr(request.module, "REFUSED", ())
    if expected is not None:
        rights.check(control_plane, expected)


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
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    assert not api.cluster_role_bindings()
