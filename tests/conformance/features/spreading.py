"""Topology spread constraints, and the Services and controllers that default ones come from."""

from __future__ import annotations

import random

from tests.conformance.features.draft import Draft, Feature, Json, labels_of, needs

_SPREAD = needs("PodTopologySpread")
_KEYS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone", "kubernetes.io/hostname", "tier", "absent")
APPS = ("web", "db", "cache")


def pod_selector(rng: random.Random) -> Json:
    """A selector of pods by their labels."""
    kind = rng.randrange(6)
    if kind == 0:
        return {}
    if kind == 1:
        operator = rng.choice(["In", "NotIn"])
        return {"matchExpressions": [{"key": "app", "operator": operator, "values": rng.sample(APPS, 2)}]}
    if kind == 2:
        return {"matchExpressions": [{"key": "version", "operator": rng.choice(["Exists", "DoesNotExist"])}]}
    return {"matchLabels": {"app": rng.choice(APPS)}}


def _constraints(rng: random.Random, pod: Json, actions: tuple[str, ...], *, wide: bool = False) -> None:
    existing = pod["spec"].get("topologySpreadConstraints", [])
    seen = {(constraint["topologyKey"], constraint["whenUnsatisfiable"]) for constraint in existing}
    for _ in range(rng.randint(1, 3)):
        key, action = rng.choice(_KEYS), rng.choice(actions)
        if (key, action) in seen:
            continue
        seen.add((key, action))
        constraint: Json = {"maxSkew": rng.choice([1, 1, 2, 5]), "topologyKey": key, "whenUnsatisfiable": action}
        if rng.random() < 0.9:
            constraint["labelSelector"] = pod_selector(rng)
        if wide:
            _widen(rng, constraint)
        pod["spec"].setdefault("topologySpreadConstraints", []).append(constraint)


def _widen(rng: random.Random, constraint: Json) -> None:
    if rng.random() < 0.5:
        constraint["nodeAffinityPolicy"] = rng.choice(["Honor", "Ignore"])
    if rng.random() < 0.5:
        constraint["nodeTaintsPolicy"] = rng.choice(["Honor", "Ignore"])
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.5:
        constraint["minDomains"] = rng.choice([1, 2, 3, 5])
    if "labelSelector" in constraint and rng.random() < 0.5:
        used = set(constraint["labelSelector"].get("matchLabels", {}))
        used |= {expression["key"] for expression in constraint["labelSelector"].get("matchExpressions", [])}
        keys = [key for key in ("version", "app", "nowhere") if key not in used]
        constraint["matchLabelKeys"] = rng.sample(keys, rng.randint(1, len(keys)))


def _hard(rng: random.Random, pod: Json) -> None:
    _constraints(rng, pod, ("DoNotSchedule",))


def _soft(rng: random.Random, pod: Json) -> None:
    _constraints(rng, pod, ("ScheduleAnyway",))


def _mixed(rng: random.Random, pod: Json) -> None:
    _constraints(rng, pod, ("DoNotSchedule", "ScheduleAnyway"), wide=True)


def _unzone(rng: random.Random, node: Json) -> None:
    if rng.random() < 0.25:
        labels_of(node).pop("topology.kubernetes.io/zone", None)


_OWNERS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}


def _defaults(rng: random.Random, draft: Draft) -> None:
    for number in range(rng.randint(0, 2)):
        spec: Json = {"ports": [{"port": 80}]}
        if rng.random() < 0.85:
            spec["selector"] = {"app": rng.choice(APPS)}
        draft.others.append(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": f"service-{number}", "namespace": rng.choice(["default", "team-a"])},
                "spec": spec,
            }
        )
    for number, pod in enumerate(draft.incoming):
        if rng.random() < 0.6:
            kind = rng.choice(list(_OWNERS))
            owner = _owner(kind, f"owner-{number}", pod, rng)
            draft.others.append(owner)
            pod["metadata"]["ownerReferences"] = [
                {
                    "apiVersion": _OWNERS[kind],
                    "kind": kind,
                    "name": owner["metadata"]["name"],
                    "uid": f"00000000-0000-0000-0000-00000000000{number}",
                    "controller": rng.random() < 0.9,
                }
            ]


def _owner(kind: str, name: str, pod: Json, rng: random.Random) -> Json:
    labels = {"app": labels_of(pod).get("app", "web")}
    template = {
        "metadata": {"labels": labels | {"version": "1"}},
        "spec": {"containers": [{"name": "main", "image": "app-a"}]},
    }
    spec: Json = {"replicas": 1, "template": template}
    if kind == "ReplicationController":
        spec["selector"] = labels
    elif rng.random() < 0.7:
        spec["selector"] = {"matchLabels": labels}
    else:
        spec["selector"] = {"matchExpressions": [{"key": "app", "operator": "In", "values": [labels["app"]]}]}
    if kind == "StatefulSet":
        spec["serviceName"] = "service-0"
    return {
        "apiVersion": _OWNERS[kind],
        "kind": kind,
        "metadata": {"name": name, "namespace": pod["metadata"]["namespace"]},
        "spec": spec,
    }


FEATURES = (
    Feature("spread-hard", _SPREAD, node=_unzone, incoming=_hard),
    Feature("spread-soft", _SPREAD, node=_unzone, incoming=_soft),
    Feature("spread-policies", _SPREAD, node=_unzone, incoming=_mixed),
    Feature("spread-default", _SPREAD, node=_unzone, cluster=_defaults),
)
