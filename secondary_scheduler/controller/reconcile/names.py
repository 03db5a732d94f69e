"""Names that users, the install and the running scheduler rely on. Changing one breaks upgrades."""

from collections.abc import Mapping
from typing import Any, NamedTuple

API_VERSION = "operator.openshift.io/v1"
KIND = "SecondaryScheduler"
INSTANCE_NAME = "cluster"
"""The one name the operator acts on, as upstream's."""

FINALIZER = "secondary-scheduler.io/cleanup"
FIELD_MANAGER = "secondary-scheduler-operator"

OPERAND = "secondary-scheduler"
OPERAND_ROLE = "secondary-scheduler-operand"
METRICS_SERVICE = "metrics"
SERVING_CERT_SECRET = "secondary-scheduler-serving-cert"  # noqa: S105 -- a name
ACTIVE_CONFIG_PREFIX = "secondary-scheduler-active-"

CONFIG_KEY = "config.yaml"
CONFIG_VOLUME = "etckubernetes"
CONFIG_DIRECTORY = "/etc/kubernetes"
CERTS_DIRECTORY = "/certs-dir"
METRIC_CREDENTIALS_DIRECTORY = "/var/run/secrets/secondary-scheduler/metrics"
SECURE_PORT = 10259

LABEL_APP = "app"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_INSTANCE = "secondary-scheduler.io/instance"
LABEL_NAMESPACE = "secondary-scheduler.io/namespace"
"""On cluster-scoped objects, which cannot be owned by a namespaced one: whose they are."""

ANNOTATION_CONFIGURATION_HASH = "secondary-scheduler.io/configuration-hash"
ANNOTATION_SOURCE = "secondary-scheduler.io/source"
ANNOTATION_LOAD_FRESH = "secondary-scheduler.io/load-data-fresh"
ANNOTATION_LOAD_MESSAGE = "secondary-scheduler.io/load-data-message"


class Resource(NamedTuple):
    """How the API server serves a kind."""

    api_version: str
    plural: str
    namespaced: bool = True


RESOURCES: Mapping[str, Resource] = {
    KIND: Resource(API_VERSION, "secondaryschedulers"),
    "ConfigMap": Resource("v1", "configmaps"),
    "Secret": Resource("v1", "secrets"),
    "ServiceAccount": Resource("v1", "serviceaccounts"),
    "Service": Resource("v1", "services"),
    "Pod": Resource("v1", "pods"),
    "Deployment": Resource("apps/v1", "deployments"),
    "Role": Resource("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": Resource("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRoleBinding": Resource("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
    "Lease": Resource("coordination.k8s.io/v1", "leases"),
}
"""Every kind the operator reads or writes."""


def owned_labels(instance: str) -> dict[str, str]:
    """Labels by which an object is recognised as made for the instance."""
    return {LABEL_APP: OPERAND, LABEL_MANAGED_BY: FIELD_MANAGER, LABEL_INSTANCE: instance}


def is_owned(obj: Mapping[str, Any], instance: str, namespace: str) -> bool:
    """Whether the object was made by this operator for the instance."""
    labels = obj["metadata"].get("labels") or {}
    mine = labels.get(LABEL_MANAGED_BY) == FIELD_MANAGER and labels.get(LABEL_INSTANCE) == instance
    return mine and labels.get(LABEL_NAMESPACE, namespace) == namespace
