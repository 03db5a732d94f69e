"""What `explain` reads of the cluster itself: pods, Deployments, and names that are like one that does not exist."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from scheduler.kube.client import KubeError, NotFound, SyncConnection, api_path
from secondary_scheduler.cli.errors import CommandError, ExitCode, printable
from secondary_scheduler.clusterstatus.listing import list_items, part, parts, read_object

Json = dict[str, Any]
API_VERSIONS = {"pod": "v1", "deployment": "apps/v1", "namespace": "v1"}
_TYPES = {
    **dict.fromkeys(("po", "pod", "pods"), "pod"),
    **dict.fromkeys(("deploy", "deployment", "deployments", "deployment.apps", "deployments.apps"), "deployment"),
}
"""The types that may stand before a name, as kubectl spells them."""
_MOST_NAMES = 5000
"""Names that are compared with one that does not exist."""
_MOST_LIKE = 3
_MOST_PODS = 1000


class Subject(NamedTuple):
    """What is explained: `kind` is `pod` or `deployment`."""

    kind: str
    name: str


def type_of(word: str) -> str | None:
    """Return the type that a word stands for, as kubectl's do; None for one that cannot be explained."""
    return _TYPES.get(word.lower())


def subject_of(text: str) -> Subject:
    """Read `NAME`, `pod/NAME` or `deployment/NAME`.

    Raises:
        CommandError: it is something else.
    """
    word, slash, name = text.rpartition("/")
    kind = type_of(word) if slash else "pod"
    if kind is None or not name:
        raise CommandError(
            printable(f"{text}: name a pod (NAME or pod/NAME) or a Deployment (deployment/NAME)"), ExitCode.USAGE
        )
    return Subject(kind, name)


def read_named(connection: SyncConnection, kind: str, namespace: str, name: str) -> Json:
    """Return a pod or a Deployment.

    Raises:
        CommandError: there is none of this name; it says where there is one, or which names are like it.
        KubeError: it cannot be read.
    """
    path = api_path(API_VERSIONS[kind], f"{kind}s", namespace=namespace, name=name)
    try:
        return read_object(connection.get(path), path)
    except NotFound:
        hint = _like(connection, kind, namespace, name)
        raise CommandError(printable(f"{namespace}/{name}: there is no such {kind}{hint}")) from None


def _like(connection: SyncConnection, kind: str, namespace: str, name: str) -> str:
    """What the user may have meant, as far as the user may read it; "" if nothing is like it."""
    try:
        connection.get(api_path("v1", "namespaces", name=namespace))
    except NotFound:
        return f", as there is no namespace {namespace}{_did_you_mean(connection, 'namespace', None, namespace)}"
    except KubeError:
        pass  # who may read pods of a namespace need not be allowed to read the namespace
    try:
        everywhere = api_path(API_VERSIONS[kind], f"{kind}s")
        named = list_items(connection, everywhere, {"fieldSelector": f"metadata.name={name}"}, most=_MOST_LIKE)
        places = sorted(str(part(item, "metadata").get("namespace")) for item in named)
    except KubeError:
        places = []
    if places:
        return f"; one of this name is in {' and in '.join(places)}: -n {places[0]}"
    return _did_you_mean(connection, kind, namespace, name)


def _did_you_mean(connection: SyncConnection, kind: str, namespace: str | None, name: str) -> str:
    try:
        items = list_items(connection, api_path(API_VERSIONS[kind], f"{kind}s", namespace=namespace), most=_MOST_NAMES)
        names = [str(part(item, "metadata").get("name")) for item in items]
    except KubeError:
        return ""
    # A Deployment's pods have its name and more.
    longer = [each for each in names if each.startswith(f"{name}-")]
    return suggestion(name, names) or suggested(longer)


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean …?` with the names that are like one; "" if none is."""
    return suggested(difflib.get_close_matches(name, list(names), n=_MOST_LIKE, cutoff=0.6))


def suggested(names: Iterable[str]) -> str:
    """Return `; did you mean …?` with the first of these names; "" without any."""
    first = list(islice(names, _MOST_LIKE))
    return f"; did you mean {' or '.join(first)}?" if first else ""


def pods_of(connection: SyncConnection, deployment: Mapping[str, Any], namespace: str) -> list[Json]:
    """Return the pods that a Deployment selects and that have not ended, in the order of `explained_first`.

    Raises:
        CommandError: it has no pods; its own conditions say why.
        KubeError: pods cannot be listed.
    """
    selector = _selector(part(deployment, "spec", "selector"))
    path = api_path("v1", "pods", namespace=namespace)
    pods = explained_first(list_items(connection, path, {"labelSelector": selector}, most=_MOST_PODS))
    if not pods:
        name = part(deployment, "metadata").get("name")
        failures = (each for each in parts(deployment, "status", "conditions") if each.get("type") == "ReplicaFailure")
        wanted = part(deployment, "spec").get("replicas", 1)
        reason = next((str(each.get("message")) for each in failures), f"it wants {wanted}")
        raise CommandError(printable(f"deployment {namespace}/{name} has no pods: {reason}"))
    return pods


def explained_first(pods: Iterable[Json]) -> list[Json]:
    """Return the pods that have not ended: those that wait first, the one that was created first before the others;
    then those with a node, the newest first."""
    left = [pod for pod in pods if part(pod, "status").get("phase") not in ("Succeeded", "Failed")]
    waiting = sorted((pod for pod in left if not node_of(pod)), key=_created)
    return waiting + sorted((pod for pod in left if node_of(pod)), key=_created, reverse=True)


def summary_of(name: str, pods: list[Json]) -> Json:
    """Return how many pods a Deployment has where, and which ones wait; the first is explained."""
    nodes = Counter(node for pod in pods if (node := node_of(pod)))
    waiting = [name_of(pod) for pod in pods if not node_of(pod)]
    return {"name": name, "pods": len(pods), "explained": name_of(pods[0]), "waiting": waiting, "nodes": dict(nodes)}


def _selector(selector: Mapping[str, Any]) -> str:
    """Return a label selector as a query has it."""
    terms = [f"{key}={value}" for key, value in part(selector, "matchLabels").items()]
    for each in parts(selector, "matchExpressions"):
        key, values = each.get("key"), ",".join(map(str, each.get("values") or ()))
        operators = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": str(key)}
        terms.append(operators.get(str(each.get("operator")), f"!{key}"))
    return ",".join(terms)


def node_of(pod: Mapping[str, Any]) -> str:
    """Return the node of a pod; "" while it has none."""
    return str(part(pod, "spec").get("nodeName") or "")


def name_of(pod: Mapping[str, Any]) -> str:
    """Return the name of an object."""
    return str(part(pod, "metadata").get("name") or "")


def _created(pod: Mapping[str, Any]) -> str:
    return str(part(pod, "metadata").get("creationTimestamp") or "")
