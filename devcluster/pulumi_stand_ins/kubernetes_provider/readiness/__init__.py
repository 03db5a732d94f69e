"""When an object counts as ready, kind by kind.

Pure, except that a `ClusterReader` fetches what belongs to an object.
"""

from collections.abc import Callable, Mapping

from devcluster.pulumi_stand_ins.kubernetes_provider import wait_for
from devcluster.pulumi_stand_ins.kubernetes_provider.objects import (
    ANNOTATION_SKIP_AWAIT,
    ANNOTATION_WAIT_FOR,
    annotation,
    group_kind,
    is_annotated_true,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.readiness import others, workloads
from devcluster.pulumi_stand_ins.kubernetes_provider.readiness.states import (
    READY,
    ClusterReader,
    Failed,
    Pending,
    Ready,
    State,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object

__all__ = ["Failed", "Look", "Pending", "Ready", "State", "readiness"]

_BY_KIND: Mapping[tuple[str, str], Callable[[Object, ClusterReader], State]] = {
    ("apps", "Deployment"): workloads.deployment,
    ("apps", "StatefulSet"): workloads.stateful_set,
    ("apps", "DaemonSet"): workloads.daemon_set,
    ("batch", "Job"): workloads.job,
    ("", "Pod"): workloads.pod,
    ("", "PersistentVolumeClaim"): others.persistent_volume_claim,
    ("", "Service"): others.service,
    ("", "Secret"): others.secret,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): others.custom_resource_definition,
}


def readiness(obj: Object, reader: ClusterReader) -> State:
    """The state of a live object. `pulumi.com/skipAwait` and `pulumi.com/waitFor` go before the kind's own rule;
    kinds without a rule, custom resources among them, are ready once they exist."""
    if is_annotated_true(obj, ANNOTATION_SKIP_AWAIT):
        return READY
    expression = annotation(obj, ANNOTATION_WAIT_FOR)
    if expression is not None:
        missing = [text for wanted in wait_for.parse(expression) if (text := wanted.pending_reason(obj)) is not None]
        return Pending(missing[0], (*missing, *workloads.workload_problems(obj, reader))) if missing else READY
    rule = _BY_KIND.get(group_kind(obj))
    return rule(obj, reader) if rule is not None else READY
