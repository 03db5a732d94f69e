"""Names and paths that users, images and the operator rely on. Changing one breaks upgrades."""

from scheduler.catalog import ANNOTATION_CONFIGURATION_HASH as ANNOTATION_CONFIGURATION_HASH
from scheduler.catalog import METRIC_CREDENTIALS_DIRECTORY as METRIC_CREDENTIALS_DIRECTORY
from scheduler.catalog import OPERAND

CONFIG_KEY = "config.yaml"
CONFIG_VOLUME = "etckubernetes"
CONFIG_DIRECTORY = "/etc/kubernetes"
CERTS_DIRECTORY = "/certs-dir"
SECURE_PORT = 10259

LABEL_APP = "app"


def lease_role_name(operand: str) -> str:
    """Return the name of Role and RoleBinding for a scheduler's Lease."""
    return f"{operand}-operand"


def metrics_service_name(operand: str) -> str:
    """Return the name of the Service that Prometheus scrapes."""
    return "metrics" if operand == OPERAND else f"{operand}-metrics"


def serving_cert_secret_name(operand: str) -> str:
    """Return the name of the Secret with the serving certificate, if one is provided."""
    return f"{operand}-serving-cert"


def secret_names(operand: str) -> tuple[str, ...]:
    """Return the names of the Secrets that a scheduler usually mounts: serving certificate and metric credentials.

    The operator looks whether these exist, and may read no others unless it is told their names.
    """
    return serving_cert_secret_name(operand), f"{operand}-metrics"
