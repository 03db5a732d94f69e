"""A control plane with one node identity, an agent on it, and a namespace per test."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import kubernetes as k8s
import pytest

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.integration.node_agent.helpers import NODE, Api, RunningAgent, running, start_agent_in, wait_for


@pytest.fixture(scope="session")
def node_cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    """A control plane that knows the node's identity; the agent that comes with it is ended, its place is free."""
    spec = ClusterSpec(
        name="node-agent", state_root=cluster_state_root, nodes=0, real_nodes=1,
        prometheus=False, default_scheduler=False, kwok=False, tools=False,
    )  # fmt: skip
    with LocalCluster(spec) as cluster:
        for service in cluster.status().services:
            if service.name == f"node-{NODE}":
                os.kill(service.pid, signal.SIGTERM)
                wait_for(lambda pid=service.pid: not running(pid), "the cluster's own agent to end")
        take_away_further_rights(cluster)
        yield cluster


def take_away_further_rights(cluster: LocalCluster) -> None:
    """Leave the agent what the Node authorizer gives any kubelet: nothing else may be needed."""
    with k8s.config.new_client_from_config(str(cluster.kubeconfig)) as client:
        rbac = k8s.client.RbacAuthorizationV1Api(client)
        for binding in rbac.list_cluster_role_binding().items:
            if any(
                subject.name in ("system:nodes", "secondary-scheduler.io:node-agents")
                for subject in binding.subjects or []
            ):
                rbac.delete_cluster_role_binding(binding.metadata.name)


@pytest.fixture(scope="module")
def agent(node_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """An agent for all tests of a module."""
    started = start_agent_in(node_cluster, tmp_path_factory.mktemp("agent"))
    yield started
    started.end()


@pytest.fixture
def api(node_cluster: LocalCluster) -> Iterator[Api]:
    """The API in a new namespace whose ServiceAccount exists."""
    client = k8s.config.new_client_from_config(str(node_cluster.kubeconfig))
    core = k8s.client.CoreV1Api(client)
    namespace = f"node-agent-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": namespace}})
    wait_for(lambda: core.read_namespaced_service_account("default", namespace), "the ServiceAccount")
    api = Api(namespace, core, k8s.client.AppsV1Api(client))
    yield api
    core.delete_namespace(namespace)
    for pod in core.list_namespaced_pod(namespace).items:
        with contextlib.suppress(k8s.client.ApiException):
            core.delete_namespaced_pod(pod.metadata.name, namespace, grace_period_seconds=0)
    client.close()
