"""The objects of a running scheduler in a cluster: its Deployment and what is around it, as plain manifests.

The operator, and the Pulumi program where there is no operator, take the contents from here, so that both follow one
contract. Membership: pure functions over data; owners, labels and field managers are up to the caller. May import
`scheduler.catalog` and `scheduler.config`; does no I/O and reads no clock.
"""

from scheduler.operand.deployment import (
    CERTS_VOLUME,
    CONTAINER_SECURITY,
    ROLLING_UPDATE,
    Operand,
    Timings,
    deployment_spec,
    environment_for,
    is_fixed_flag,
    pod_security,
    temporary_volume,
)
from scheduler.operand.names import (
    ANNOTATION_CONFIGURATION_HASH,
    CERTS_DIRECTORY,
    CONFIG_DIRECTORY,
    CONFIG_KEY,
    CONFIG_VOLUME,
    LABEL_APP,
    METRIC_CREDENTIALS_DIRECTORY,
    SECURE_PORT,
    lease_role_name,
    metrics_service_name,
    secret_names,
    serving_cert_secret_name,
)
from scheduler.operand.network import (
    API_SERVER_PORTS,
    network_policy_spec,
    scheduler_network_policy_spec,
    source_ports,
)
from scheduler.operand.objects import (
    account,
    cluster_role_ref,
    cluster_roles_for,
    disruption_budget_spec,
    flow_schema_spec,
    lease_rules,
    metrics_service_annotations,
    metrics_service_spec,
    role_ref,
    service_monitor_spec,
)

__all__ = [
    "ANNOTATION_CONFIGURATION_HASH",
    "API_SERVER_PORTS",
    "CERTS_DIRECTORY",
    "CERTS_VOLUME",
    "CONFIG_DIRECTORY",
    "CONFIG_KEY",
    "CONFIG_VOLUME",
    "CONTAINER_SECURITY",
    "LABEL_APP",
    "METRIC_CREDENTIALS_DIRECTORY",
    "ROLLING_UPDATE",
    "SECURE_PORT",
    "Operand",
    "Timings",
    "account",
    "cluster_role_ref",
    "cluster_roles_for",
    "deployment_spec",
    "disruption_budget_spec",
    "environment_for",
    "flow_schema_spec",
    "is_fixed_flag",
    "lease_role_name",
    "lease_rules",
    "metrics_service_annotations",
    "metrics_service_name",
    "metrics_service_spec",
    "network_policy_spec",
    "pod_security",
    "role_ref",
    "scheduler_network_policy_spec",
    "secret_names",
    "service_monitor_spec",
    "serving_cert_secret_name",
    "source_ports",
    "temporary_volume",
]
