"""Affinity between pods, own and of pods that run already."""

from __future__ import annotations

import random

from tests.conformance.features.draft import Feature, Json, Touch, affinity_of, needs
from tests.conformance.features.spreading import APPS, pod_selector
from tests.conformance.surroundings import NAMESPACES

_INTER = needs("InterPodAffinity")
_KEYS = ("topology.kubernetes.io/zone", "kubernetes.io/hostname", "tier", "absent")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _plain_term(rng: random.Random) -> Json:
    key = rng.choice(_KEYS[:3]) if rng.random() < 0.95 else _KEYS[3]
    term: Json = {"topologyKey": key}
    if rng.random() < 0.95:
        term["labelSelector"] = pod_selector(rng)
    return term


def _wide_term(rng: random.Random) -> Json:
    term = _plain_term(rng)
    if rng.random() < 0.4:
        term["namespaces"] = rng.sample(NAMESPACES, rng.randint(1, 2))
    if rng.random() < 0.5:
        term["namespaceSelector"] = rng.choice(
            [
                {},
                {"matchLabels": {"team": "a"}},
                {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]},
                {"matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]},
                {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
            ]
        )
    selector = term.get("labelSelector")
    if selector is not None and rng.random() < 0.4:
        used = set(selector.get("matchLabels", {})) | {
            expression["key"] for expression in selector.get("matchExpressions", [])
        }
        keys = [key for key in ("version", "app") if key not in used]
        if keys:
            term[rng.choice(["matchLabelKeys", "mismatchLabelKeys"])] = [rng.choice(keys)]
    return term


def _own_term(rng: random.Random, pod: Json) -> Json:
    return {
        "topologyKey": rng.choice(_KEYS[:2]),
        "labelSelector": {"matchLabels": {"app": pod["metadata"]["labels"].get("app", rng.choice(APPS))}},
    }


def _required(kind: str, *, wide: bool, chance: float = 0.8) -> Touch:
    def touch(rng: random.Random, pod: Json) -> None:
        if rng.random() < chance:
            terms = [(_wide_term if wide else _plain_term)(rng) for _ in range(rng.choice([1, 1, 2]))]
            if rng.random() < 0.3:
                terms = [_own_term(rng, pod)]
            affinity_of(pod, kind)[_REQUIRED] = terms

    return touch


def _preferred(*, wide: bool, chance: float = 0.8) -> Touch:
    def touch(rng: random.Random, pod: Json) -> None:
        for kind in ("podAffinity", "podAntiAffinity"):
            if rng.random() < chance:
                affinity_of(pod, kind)[_PREFERRED] = [
                    {
                        "weight": rng.choice([1, 10, 55, 100]),
                        "podAffinityTerm": (_wide_term if wide else _plain_term)(rng),
                    }
                    for _ in range(rng.randint(1, 3))
                ]

    return touch


FEATURES = (
    Feature("pod-affinity", _INTER, incoming=_required("podAffinity", wide=False)),
    Feature("pod-anti-affinity", _INTER, incoming=_required("podAntiAffinity", wide=False)),
    Feature("pod-preferred", _INTER, incoming=_preferred(wide=False)),
    Feature("existing-affinity", _INTER, existing=_required("podAffinity", wide=False, chance=0.4)),
    Feature("existing-anti-affinity", _INTER, existing=_required("podAntiAffinity", wide=False, chance=0.25)),
    Feature("existing-preferred", _INTER, existing=_preferred(wide=True, chance=0.3)),
    Feature(
        "affinity-namespaces",
        _INTER,
        existing=_required("podAntiAffinity", wide=True, chance=0.2),
        incoming=_required("podAffinity", wide=True, chance=0.6),
    ),
    Feature("anti-affinity-namespaces", _INTER, incoming=_required("podAntiAffinity", wide=True, chance=0.8)),
    Feature("preferred-namespaces", _INTER, incoming=_preferred(wide=True)),
)
