"""What is explained, and what `explain` reads of the cluster about it: pods, Deployments and PodGroups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from scheduler.answers import DeploymentPods, QueueReport, WaitingPod
from scheduler.kube.client import SyncConnection, api_path
from scheduler.kube.model import POD_GROUP_LABEL
from secondary_scheduler.cli.errors import CommandError, ExitCode, printable
from secondary_scheduler.clusterstatus.listing import list_items
from secondary_scheduler.kubeobjects import KubeObject, name_of, node_of, part, parts

_TYPES = {
    **dict.fromkeys(("po", "pod", "pods"), "pod"),
    **dict.fromkeys(("deploy", "deployment", "deployments", "deployment.apps", "deployments.apps"), "deployment"),
    **dict.fromkeys(("pg", "podgroup", "podgroups"), "podgroup"),
}
"""The types that may stand before a name, as kubectl spells them."""
_MAX_PODS = 1000


class Subject(NamedTuple):
    """What is explained: `kind` is `pod`, `deployment` or `podgroup`."""

    kind: str
    name: str


def type_of(word: str) -> str | None:
    """Return the type that a word stands for, as kubectl's do; None for one that cannot be explained."""
    return _TYPES.get(word.lower())


def subject_of(text: str) -> Subject:
    """Read `NAME`, `pod/NAME`, `deployment/NAME` or `podgroup/NAME`.

    Raises:
        CommandError: it is something else.
    """
    word, slash, name = text.rpartition("/")
    kind = type_of(word) if slash else "pod"
    if kind is None or not name:
        raise CommandError(
            printable(
                f"{text}: name a pod (NAME or pod/NAME), a Deployment (deployment/NAME) or a PodGroup (podgroup/NAME)"
            ),
            ExitCode.USAGE,
        )
    return Subject(kind, name)


def pods_of(connection: SyncConnection, deployment: Mapping[str, Any], namespace: str) -> list[KubeObject]:
    """Return the pods that a Deployment selects and that have not ended, in the order of `explained_first`.

    Raises:
        CommandError: it has no pods; its own conditions say why.
        KubeError: pods cannot be listed.
    """
    selector = _selector(part(deployment, "spec", "selector"))
    path = api_path("v1", "pods", namespace=namespace)
    pods = explained_first(list_items(connection, path, {"labelSelector": selector}, limit=_MAX_PODS))
    if not pods:
        name = part(deployment, "metadata").get("name")
        conditions = parts(deployment, "status", "conditions")
        failures = (condition for condition in conditions if condition.get("type") == "ReplicaFailure")
        replicas = part(deployment, "spec").get("replicas", 1)
        reason = next((str(condition.get("message")) for condition in failures), f"it wants {replicas}")
        raise CommandError(printable(f"deployment {namespace}/{name} has no pods: {reason}"))
    return pods


def members_of(connection: SyncConnection, group: str, namespace: str) -> list[KubeObject]:
    """Return the pods of a PodGroup of either API that have not ended, in the order of `explained_first`.

    Raises:
        CommandError: no pod names it.
        KubeError: pods cannot be listed.
    """
    path = api_path("v1", "pods", namespace=namespace)
    labelled = list_items(connection, path, {"labelSelector": f"{POD_GROUP_LABEL}={group}"}, limit=_MAX_PODS)
    pods = explained_first(labelled) or explained_first(
        pod for pod in list_items(connection, path, {}, limit=_MAX_PODS) if is_member(pod, group)
    )
    if not pods:
        raise CommandError(printable(f"podgroup {namespace}/{group}: no pod names it that has not ended"))
    return pods


def is_member(pod: Mapping[str, Any], group: str) -> bool:
    """Tell whether a pod names a PodGroup, by label or in its spec."""
    labels = part(pod, "metadata", "labels")
    return group in (labels.get(POD_GROUP_LABEL), part(pod, "spec", "schedulingGroup").get("podGroupName"))


def explained_first(pods: Iterable[KubeObject]) -> list[KubeObject]:
    """Return the pods that have not ended: those that wait first, the one that was created first before the others;
    then those with a node, the newest first."""
    left = [pod for pod in pods if part(pod, "status").get("phase") not in ("Succeeded", "Failed")]
    waiting = sorted((pod for pod in left if not node_of(pod)), key=_created)
    return waiting + sorted((pod for pod in left if node_of(pod)), key=_created, reverse=True)


def summary_of(subject: Subject, pods: list[KubeObject]) -> DeploymentPods:
    """Return how many pods a Deployment or a PodGroup has where, and which ones wait; the first is explained."""
    nodes = Counter(node for pod in pods if (node := node_of(pod)))
    waiting = tuple(name_of(pod) for pod in pods if not node_of(pod))
    kind = {"deployment": "Deployment", "podgroup": "PodGroup"}[subject.kind]
    return DeploymentPods(subject.name, len(pods), name_of(pods[0]), waiting, dict(nodes), kind)


def joined_queues(answers: Sequence[QueueReport], namespaces: Sequence[str], limit: int) -> QueueReport:
    """Return the answers about several namespaces as one; `namespaces` is empty where all were asked for.

    Totals are those of the last answer: they are of the whole queue, and answers are some milliseconds apart.
    """
    queues = []
    for number, latest in enumerate(answers[-1].queues):
        parts = [answer.queues[number] for answer in answers]
        items = sorted((item for part in parts for item in part.items), key=_order)
        readable = sum(part.readable for part in parts)
        queues.append(replace(latest, readable=readable, items=tuple(items[:limit])))
    return replace(answers[-1], namespace=UNSET, namespaces=tuple(namespaces), queues=tuple(queues))


def _order(item: WaitingPod) -> tuple[float, float, float]:
    """Active pods by position, those that back off by its end, all others by how long they wait."""
    return item.position or 0, item.backoff_seconds or 0.0, -(item.seconds or 0.0)


def _selector(selector: Mapping[str, Any]) -> str:
    """Return a label selector as a query has it."""
    terms = [f"{key}={value}" for key, value in part(selector, "matchLabels").items()]
    for expression in parts(selector, "matchExpressions"):
        key, values = expression.get("key"), ",".join(map(str, expression.get("values") or ()))
        operators = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": str(key)}
        terms.append(operators.get(str(expression.get("operator")), f"!{key}"))
    return ",".join(terms)


def _created(pod: Mapping[str, Any]) -> str:
    return str(part(pod, "metadata").get("creationTimestamp") or "")
