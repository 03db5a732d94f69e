"""Objects that make a scheduler safer or better observed, and without which it runs all the same.

A failure to write one is reported as a warning and blocks nothing else.
"""

from collections.abc import Collection, Iterator

from scheduler import operand
from scheduler.catalog import FLOW_SCHEMAS
from scheduler.config import SecondarySchedulerSpec
from secondary_scheduler.operator.reconcile.model import Json, Observed
from secondary_scheduler.operator.reconcile.objects import new_object

KINDS = frozenset({"PodDisruptionBudget", "NetworkPolicy", "FlowSchema", "ServiceMonitor"})


def optional_objects(
    observed: Observed, spec: SecondarySchedulerSpec, replicas: int, egress: Collection[int] | None
) -> Iterator[Json]:
    """What is wanted of these kinds, as far as the API server serves them and none is among `spec.without`.

    `egress` are the TCP ports that the scheduler needs beside the API server's; None if they are not known.
    """
    everything = _all_optional_objects(observed, replicas, egress, spec.scrape_namespaces)
    return (body for body in everything if body["kind"] not in spec.without)


def _all_optional_objects(
    observed: Observed, replicas: int, egress: Collection[int] | None, scrape_namespaces: Collection[str]
) -> Iterator[Json]:
    scheduler = observed.names.operand
    if replicas > 1:
        # A single one has no budget: it would make its node undrainable.
        yield _object(observed, "PodDisruptionBudget", scheduler, operand.disruption_budget_spec(scheduler))
    network = operand.scheduler_network_policy_spec(scheduler, egress, scrape_namespaces)
    yield _object(observed, "NetworkPolicy", scheduler, network)
    for purpose in FLOW_SCHEMAS:
        spec = operand.flow_schema_spec(purpose, scheduler, observed.namespace)
        yield _object(observed, "FlowSchema", observed.names.flow_schema(purpose), spec)
    if "ServiceMonitor" not in observed.unserved:
        monitor = operand.service_monitor_spec(scheduler, observed.namespace, openshift=observed.openshift)
        yield _object(observed, "ServiceMonitor", scheduler, monitor)


def _object(observed: Observed, kind: str, name: str, spec: Json) -> Json:
    return new_object(observed, kind, name, observed.names.labels, spec=spec)
