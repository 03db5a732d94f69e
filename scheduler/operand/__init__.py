"""The objects of a running scheduler in a cluster: its Deployment and what is around it, as plain manifests.

The operator, and the Pulumi program where there is no operator, take the contents from here, so that both follow one
contract. Membership: pure functions over data; owners, labels and field managers are up to the caller. May import
`scheduler.catalog` and `scheduler.config`; does no I/O and reads no clock.
"""

from scheduler.operand.deployment import (
    CERTS_VOLUME as CERTS_VOLUME,
    CONTAINER_SECURITY as CONTAINER_SECURITY,
    FEWER_REPLICAS as FEWER_REPLICAS,
    METRICS_VOLUME as METRICS_VOLUME,
    ROLLING_UPDATE as ROLLING_UPDATE,
    Operand as Operand,
    Timings as Timings,
    deployment_spec as deployment_spec,
    environment_for as environment_for,
    is_fixed_flag as is_fixed_flag,
    metric_credentials_volume as metric_credentials_volume,
    pod_security as pod_security,
    shortage_of as shortage_of,
    temporary_volume as temporary_volume,
)
from scheduler.operand.network import (
    API_SERVER_PORTS as API_SERVER_PORTS,
    fenced_network_policy_spec as fenced_network_policy_spec,
    network_policy_spec as network_policy_spec,
    scheduler_network_policy_spec as scheduler_network_policy_spec,
    source_ports as source_ports,
)
from scheduler.operand.objects import (
    ANNOTATION_CONFIGURATION_HASH as ANNOTATION_CONFIGURATION_HASH,
    CERTS_DIRECTORY as CERTS_DIRECTORY,
    CONFIG_DIRECTORY as CONFIG_DIRECTORY,
    CONFIG_KEY as CONFIG_KEY,
    CONFIG_VOLUME as CONFIG_VOLUME,
    EVICTION_POLICY_BINDING as EVICTION_POLICY_BINDING,
    LABEL_APP as LABEL_APP,
    METRIC_CREDENTIALS_DIRECTORY as METRIC_CREDENTIALS_DIRECTORY,
    SECURE_PORT as SECURE_PORT,
    account as account,
    cel as cel,
    cluster_role_ref as cluster_role_ref,
    cluster_roles_for as cluster_roles_for,
    constraints as constraints,
    disruption_budget_spec as disruption_budget_spec,
    evictions_policy as evictions_policy,
    flow_schema_spec as flow_schema_spec,
    lease_role_name as lease_role_name,
    lease_rules as lease_rules,
    metrics_service_annotations as metrics_service_annotations,
    metrics_service_name as metrics_service_name,
    metrics_service_spec as metrics_service_spec,
    role_ref as role_ref,
    scrape_endpoint as scrape_endpoint,
    scraped_service_spec as scraped_service_spec,
    scraping_monitor_spec as scraping_monitor_spec,
    secret_names as secret_names,
    service_monitor_spec as service_monitor_spec,
    serving_cert_secret_name as serving_cert_secret_name,
)
from scheduler.operand.rebalancer import (
    ANNOTATION_SETTINGS_HASH as ANNOTATION_SETTINGS_HASH,
    HEALTH_PORT as HEALTH_PORT,
    METRICS_PORT as METRICS_PORT,
    REBALANCER_COMMAND as REBALANCER_COMMAND,
    REBALANCER_SETTINGS_KEY as REBALANCER_SETTINGS_KEY,
    RebalancerOperand as RebalancerOperand,
    rebalancer_deployment_spec as rebalancer_deployment_spec,
    rebalancer_monitor_spec as rebalancer_monitor_spec,
    rebalancer_namespace_rules as rebalancer_namespace_rules,
    rebalancer_selector as rebalancer_selector,
    rebalancer_service_spec as rebalancer_service_spec,
    settings_hash as settings_hash,
    settings_map_name as settings_map_name,
    settings_text as settings_text,
)
