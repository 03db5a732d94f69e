"""Names that users, the install and the running scheduler rely on. Changing one breaks upgrades."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from scheduler import catalog, operand
from scheduler.catalog import (
    CANARY_SUFFIX,
    cluster_role_binding_name,
    eviction_policy_name,
    flow_schema_name,
    operand_name,
    rebalancer_name,
)

ANNOTATION_CACHE_CURRENT = catalog.ANNOTATION_CACHE_CURRENT
ANNOTATION_CACHE_MESSAGE = catalog.ANNOTATION_CACHE_MESSAGE
ANNOTATION_CONFIGURATION_HASH = catalog.ANNOTATION_CONFIGURATION_HASH
ANNOTATION_LOAD_FRESH = catalog.ANNOTATION_LOAD_FRESH
ANNOTATION_LOAD_MESSAGE = catalog.ANNOTATION_LOAD_MESSAGE
ANNOTATION_OVERCOMMITTED = catalog.ANNOTATION_OVERCOMMITTED
ANNOTATION_OVERCOMMITTED_MESSAGE = catalog.ANNOTATION_OVERCOMMITTED_MESSAGE
ANNOTATION_UNREAD = catalog.ANNOTATION_UNREAD
ANNOTATION_VERSION = catalog.ANNOTATION_VERSION
ANNOTATION_VERSION_MESSAGE = catalog.ANNOTATION_VERSION_MESSAGE
CERTS_VOLUME = operand.CERTS_VOLUME
CONFIG_KEY = operand.CONFIG_KEY
CONFIG_VOLUME = operand.CONFIG_VOLUME
LABEL_APP = operand.LABEL_APP
METRIC_CREDENTIALS_DIRECTORY = operand.METRIC_CREDENTIALS_DIRECTORY

API_VERSION = "operator.openshift.io/v1"
KIND = "SecondaryScheduler"
FINALIZER = "secondary-scheduler.io/cleanup"
FIELD_MANAGER = "secondary-scheduler-operator"

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_INSTANCE = "secondary-scheduler.io/instance"
LABEL_NAMESPACE = "secondary-scheduler.io/namespace"
"""On cluster-scoped objects, which cannot be owned by a namespaced one: whose they are."""

ANNOTATION_REVISION = "secondary-scheduler.io/revision"
"""On a Deployment what it runs since when, on its pods the key of it."""
ANNOTATION_TRIAL = "secondary-scheduler.io/trial"
"""On a copy of a configuration: how the last attempt at it ended."""
ANNOTATION_RAN = "secondary-scheduler.io/ran"
"""On a copy of a configuration: the revision that ran with it."""


class ApiResource(NamedTuple):
    """How the API server serves a kind."""

    api_version: str
    plural: str
    namespaced: bool = True
    optional: bool = False
    """Whether a cluster may not have it at all."""


RESOURCES: Mapping[str, ApiResource] = {
    KIND: ApiResource(API_VERSION, "secondaryschedulers"),
    "ConfigMap": ApiResource("v1", "configmaps"),
    "Secret": ApiResource("v1", "secrets"),
    "ServiceAccount": ApiResource("v1", "serviceaccounts"),
    "Service": ApiResource("v1", "services"),
    "Pod": ApiResource("v1", "pods"),
    "Deployment": ApiResource("apps/v1", "deployments"),
    "Role": ApiResource("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ApiResource("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRoleBinding": ApiResource("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
    "Lease": ApiResource("coordination.k8s.io/v1", "leases"),
    "PodDisruptionBudget": ApiResource("policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": ApiResource("networking.k8s.io/v1", "networkpolicies"),
    "FlowSchema": ApiResource("flowcontrol.apiserver.k8s.io/v1", "flowschemas", namespaced=False),
    "ValidatingAdmissionPolicy": ApiResource(
        "admissionregistration.k8s.io/v1", "validatingadmissionpolicies", namespaced=False, optional=True
    ),
    "ValidatingAdmissionPolicyBinding": ApiResource(
        "admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", namespaced=False, optional=True
    ),
    "ServiceMonitor": ApiResource("monitoring.coreos.com/v1", "servicemonitors", optional=True),
    "Node": ApiResource("v1", "nodes", namespaced=False),
    "Namespace": ApiResource("v1", "namespaces", namespaced=False),
    "APIServer": ApiResource("config.openshift.io/v1", "apiservers", namespaced=False, optional=True),
}
"""Every kind the operator reads or writes."""


@dataclass(frozen=True, slots=True)
class InstanceNames:
    """How the objects of one instance are called, and by which labels they are recognised."""

    namespace: str
    operand: str
    """Name of ServiceAccount, Deployment and Lease, and value of the pods' label `app`."""

    @property
    def lease_role(self) -> str:
        """Role and RoleBinding for the Lease."""
        return operand.lease_role_name(self.operand)

    @property
    def canary_labels(self) -> dict[str, str]:
        """Labels of what exists only to prove a revision; nothing that selects the scheduler's pods selects these."""
        return {**self.labels, LABEL_APP: self.canary}

    @property
    def rebalancer(self) -> str:
        """ServiceAccount, Role, Deployment, Lease and status of the rebalancer, and value of its pods' label `app`."""
        return rebalancer_name(self.operand)

    @property
    def rebalancer_settings(self) -> str:
        """The ConfigMap that says what the rebalancer may move."""
        return operand.settings_map_name(self.operand)

    @property
    def rebalancer_labels(self) -> dict[str, str]:
        """Labels of the rebalancer's objects; nothing that selects the scheduler's pods selects these."""
        return {**self.labels, LABEL_APP: self.rebalancer}

    @property
    def eviction_policy(self) -> str:
        """The policy for the rebalancer's evictions and its binding, whose names are the cluster's."""
        return eviction_policy_name(self.namespace, self.operand)

    @property
    def metrics_service(self) -> str:
        """The Service that is scraped."""
        return operand.metrics_service_name(self.operand)

    @property
    def serving_cert_secret(self) -> str:
        """The Secret with the serving certificate, which is optional."""
        return operand.serving_cert_secret_name(self.operand)

    def active_config_map(self, configuration_hash: str) -> str:
        """The immutable copy of a configuration: one name, one content."""
        return f"{self.operand}-active-{configuration_hash}"

    def cluster_role_binding(self, role: str) -> str:
        """The binding to one of the static ClusterRoles."""
        return cluster_role_binding_name(role, self.namespace, self.operand)

    def flow_schema(self, purpose: str) -> str:
        """A FlowSchema, whose names are the cluster's."""
        return flow_schema_name(purpose, self.namespace, self.operand)

    @property
    def canary(self) -> str:
        """Deployment and Lease of the scheduler that proves a new revision, and value of its pods' label `app`."""
        return f"{self.operand}{CANARY_SUFFIX}"

    def canary_config_map(self, configuration_hash: str) -> str:
        """The canary's configuration, named after the configuration that it was derived from."""
        return f"{self.canary}-{configuration_hash}"

    def probe(self, key: str) -> str:
        """The pod that a canary of that revision has to bind."""
        return f"{self.canary}-probe-{key}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every object that the operator creates for the instance."""
        return {LABEL_APP: self.operand, LABEL_MANAGED_BY: FIELD_MANAGER, LABEL_INSTANCE: self.operand}

    def owns(self, obj: Mapping[str, Any]) -> bool:
        """Whether this operator created the object for the instance."""
        labels = obj["metadata"].get("labels") or {}
        mine = labels.get(LABEL_MANAGED_BY) == FIELD_MANAGER and labels.get(LABEL_INSTANCE) == self.operand
        namespace = obj["metadata"].get("namespace") or labels.get(LABEL_NAMESPACE)
        return bool(mine and namespace == self.namespace)


def names_of(namespace: str, name: str) -> InstanceNames:
    """The names of an instance."""
    return InstanceNames(namespace, operand_name(name))
