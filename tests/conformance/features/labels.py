"""Node labels, and pods that ask for or prefer them; images."""

from __future__ import annotations

import random

from tests.conformance.features.draft import Draft, Feature, Json, affinity_of, containers, labels_of, needs

_AFFINITY = needs("NodeAffinity")
TIERS = ("gold", "silver", "bronze")


def _selector(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.7:
        wanted = {"tier": rng.choice(TIERS)}
        if rng.random() < 0.3:
            wanted["disk"] = rng.choice(["ssd", "hdd"])
        if rng.random() < 0.1:
            wanted["absent"] = "yes"
        pod["spec"]["nodeSelector"] = wanted


def expression(rng: random.Random) -> Json:
    """One requirement on node labels."""
    kind = rng.choice(["In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    if kind in ("Gt", "Lt"):
        return {"key": rng.choice(["rank", "tier"]), "operator": kind, "values": [str(rng.randint(0, 9))]}
    key = rng.choice(["tier", "disk", "zone-hint", "topology.kubernetes.io/zone"])
    requirement: Json = {"key": key, "operator": kind}
    if kind in ("In", "NotIn"):
        requirement["values"] = rng.sample([*TIERS, "ssd", "hdd", "zone-a"], rng.randint(1, 3))
    return requirement


def _term(rng: random.Random) -> Json:
    # An empty term matches nothing; the API server accepts it.
    return {"matchExpressions": [expression(rng) for _ in range(rng.choice([0, 1, 1, 1, 2]))]}


def _required(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.75:
        affinity_of(pod, "nodeAffinity")["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [_term(rng) for _ in range(rng.randint(1, 3))]
        }


def _preferred(rng: random.Random, pod: Json) -> None:
    if rng.random() < 0.8:
        affinity_of(pod, "nodeAffinity")["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.choice([1, 2, 50, 100]), "preference": _term(rng)} for _ in range(rng.randint(1, 4))
        ]


def _unparsable(rng: random.Random, pod: Json) -> None:
    preferred = affinity_of(pod, "nodeAffinity").setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
    broken = rng.choice(
        [
            {"key": "rank", "operator": "Gt", "values": ["-1"]},
            {"key": "rank", "operator": "Lt", "values": ["x"]},
            {"key": "tier", "operator": "In", "values": ["not a label value"]},
        ]
    )
    preferred.append({"weight": 5, "preference": {"matchExpressions": [expression(rng), broken]}})


def _match_fields(rng: random.Random, draft: Draft) -> None:
    names = [node["metadata"]["name"] for node in draft.nodes]
    for pod in draft.incoming:
        if rng.random() < 0.3:
            continue
        terms = []
        for _ in range(rng.randint(1, 2)):
            term: Json = {}
            for _ in range(rng.choice([1, 1, 1, 2])):
                name = rng.choice([*names, "no-such-node"])
                field = {"key": "metadata.name", "operator": rng.choice(["In", "In", "NotIn"]), "values": [name]}
                term.setdefault("matchFields", []).append(field)
            if rng.random() < 0.4:
                term["matchExpressions"] = [expression(rng)]
            terms.append(term)
        affinity_of(pod, "nodeAffinity")["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": terms
        }


_IMAGES = {
    "app-a:latest": 30 << 20,
    "app-b:v1": 400 << 20,
    "registry.local:5000/team/app-c:latest": 2000 << 20,
    "app-d:v2": 23 << 20,
    "app-e@sha256:" + "a" * 64: 777_777_777,
}
_WANTED = ("app-a", "app-b:v1", "app-b", "registry.local:5000/team/app-c", "app-d:v2", "app-e@sha256:" + "a" * 64)


def _node_images(rng: random.Random, node: Json) -> None:
    held = rng.sample(list(_IMAGES), rng.randint(0, len(_IMAGES)))
    node["status"]["images"] = [{"names": [name], "sizeBytes": _IMAGES[name]} for name in held]
    if len(held) > 1 and rng.random() < 0.2:
        node["status"]["images"][0]["names"].append("alias-of-first:latest")


def _pod_images(rng: random.Random, pod: Json) -> None:
    for container in containers(pod):
        container["image"] = rng.choice(_WANTED)


def _image_volumes(rng: random.Random, pod: Json) -> None:
    for number in range(rng.choice((0, 1, 1, 2))):
        volume = {"name": f"image-{number}", "image": {"reference": rng.choice(_WANTED), "pullPolicy": "IfNotPresent"}}
        pod["spec"].setdefault("volumes", []).append(volume)


def _more_labels(rng: random.Random, node: Json) -> None:
    labels = labels_of(node)
    labels["rank"] = rng.choice(["0", "5", "7", "12", "x", "007", "9223372036854775808", "1.5"])
    labels.pop(rng.choice(["tier", "disk", "none"]), None)


def _unlabelled(rng: random.Random, pod: Json) -> None:
    """What empty selectors are about: selectors of labels leave such pods alone."""
    if rng.random() < 0.5:
        pod["metadata"]["labels"] = {}


FEATURES = (
    Feature("unlabelled", existing=_unlabelled, incoming=_unlabelled),
    Feature("node-selector", _AFFINITY, incoming=_selector),
    Feature("affinity-required", _AFFINITY, node=_more_labels, incoming=_required),
    Feature("affinity-preferred", _AFFINITY, node=_more_labels, incoming=_preferred),
    Feature(
        "affinity-unparsable",
        _AFFINITY,
        incoming=_unparsable,
        differs="the text of the error, which is Go's validation of selectors",
    ),
    Feature("match-fields", _AFFINITY, cluster=_match_fields),
    Feature("images", needs("ImageLocality"), node=_node_images, incoming=_pod_images),
    Feature("image-volumes", needs("ImageLocality"), node=_node_images, incoming=_image_volumes, since=35),
)
