"""The configuration both schedulers run: one profile per variant of plugin settings, chosen by schedulerName."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scheduler.catalog import DEFAULT_KUBERNETES, KubernetesVersion, default_plugins
from tests.conformance.case import Json

PLAIN = "plain"
"""The default profile with nothing changed: no case asks it, but tests in which volumes get bound."""


@dataclass(frozen=True)
class Variant:
    """A profile: `default` with some plugins' args or weights changed. Left out unless all of `needs` exist."""

    name: str
    needs: frozenset[str] = frozenset()
    args: dict[str, Json] = field(default_factory=dict)
    score: tuple[tuple[str, int], ...] = ()
    """Score plugins in an order and with weights of their own, instead of those of the default profile."""


def _strategy(kind: str, resources: dict[str, int], **more: object) -> Json:
    listed = [{"name": name, "weight": weight} for name, weight in resources.items()]
    return {"scoringStrategy": {"type": kind, "resources": listed, **more}}


def _shape(*points: tuple[int, int]) -> Json:
    return {"shape": [{"utilization": x, "score": y} for x, y in points]}


_WIDE = {"cpu": 3, "memory": 2, "ephemeral-storage": 1, "example.com/gpu": 7, "hugepages-2Mi": 5}
_FIT = frozenset({"NodeResourcesFit"})

VARIANTS: tuple[Variant, ...] = (
    Variant("default"),
    Variant("most", _FIT, {"NodeResourcesFit": _strategy("MostAllocated", {"cpu": 1, "memory": 1})}),
    Variant("most-wide", _FIT, {"NodeResourcesFit": _strategy("MostAllocated", _WIDE)}),
    Variant(
        "least-wide",
        _FIT,
        {
            "NodeResourcesFit": _strategy("LeastAllocated", _WIDE)
            | {"ignoredResources": ["example.com/ignored"], "ignoredResourceGroups": ["ignored.example.com"]}
        },
    ),
    Variant(
        "ratio-up",
        _FIT,
        {
            "NodeResourcesFit": _strategy(
                "RequestedToCapacityRatio",
                {"cpu": 2, "memory": 3},
                requestedToCapacityRatio=_shape((0, 0), (33, 1), (71, 9), (100, 10)),
            )
        },
    ),
    Variant(
        "ratio-down",
        _FIT,
        {
            "NodeResourcesFit": _strategy(
                "RequestedToCapacityRatio", _WIDE, requestedToCapacityRatio=_shape((7, 10), (43, 3), (89, 0))
            )
        },
    ),
    Variant(
        "balanced-wide",
        frozenset({"NodeResourcesBalancedAllocation"}),
        {
            "NodeResourcesBalancedAllocation": {
                "resources": [{"name": name, "weight": 1} for name in ("cpu", "memory", "example.com/gpu")]
            }
        },
    ),
    Variant(
        "added-affinity",
        frozenset({"NodeAffinity"}),
        {
            "NodeAffinity": {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]},
                            {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["5"]}]},
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 7,
                            "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
                        }
                    ],
                }
            }
        },
    ),
    Variant(
        "spread-list",
        frozenset({"PodTopologySpread"}),
        {
            "PodTopologySpread": {
                "defaultingType": "List",
                "defaultConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "topology.kubernetes.io/zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                    },
                    {"maxSkew": 2, "topologyKey": "tier", "whenUnsatisfiable": "ScheduleAnyway"},
                ],
            }
        },
    ),
    Variant("interpod-hard", frozenset({"InterPodAffinity"}), {"InterPodAffinity": {"hardPodAffinityWeight": 37}}),
    Variant(
        "interpod-own",
        frozenset({"InterPodAffinity"}),
        {"InterPodAffinity": {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True}},
    ),
    Variant(
        "weights",
        frozenset({"ImageLocality", "NodeResourcesFit", "TaintToleration", "NodeAffinity"}),
        score=(("ImageLocality", 100), ("NodeResourcesFit", 0), ("TaintToleration", 5), ("NodeAffinity", 11)),
    ),
)


def implemented() -> frozenset[str]:
    """Names of the default plugins our scheduler has."""
    return frozenset(descriptor.name for descriptor in default_plugins() if descriptor.implemented)


def missing() -> tuple[str, ...]:
    """Default plugins our scheduler lacks: the real one is asked without them."""
    return tuple(descriptor.name for descriptor in default_plugins() if not descriptor.implemented)


def variants(have: Iterable[str] | None = None) -> tuple[Variant, ...]:
    """The variants whose plugins exist."""
    names = implemented() if have is None else frozenset(have)
    return tuple(variant for variant in VARIANTS if variant.needs <= names)


def scheduler_name(variant: str) -> str:
    """The schedulerName of a variant's profile."""
    return f"conformance-{variant}"


def _profile(variant: Variant, kubernetes: KubernetesVersion) -> Json:
    plugins: Json = {"multiPoint": {"disabled": [{"name": name} for name in missing()]}}
    if variant.score:
        plugins["score"] = {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": name, "weight": weight} for name, weight in variant.score],
        }
    args = dict(variant.args)
    if "VolumeBinding" in implemented():
        # Nobody binds the volumes, and nobody shall wait for it.
        args["VolumeBinding"] = {"bindTimeoutSeconds": 1}
    return {
        "schedulerName": scheduler_name(variant.name),
        "plugins": plugins,
        "pluginConfig": [{"name": name, "args": value} for name, value in args.items()]
        + [{"name": "SecondarySchedulerOptions", "args": options(kubernetes)}],
    }


def options(kubernetes: KubernetesVersion) -> Json:
    """What makes our scheduler decide as that version of the real one does."""
    return {"compatibility": "upstream", "kubernetesVersion": kubernetes.name}


def configuration(kubeconfig: str, kubernetes: KubernetesVersion = DEFAULT_KUBERNETES) -> str:
    """The KubeSchedulerConfiguration, as JSON (which is YAML)."""
    plain = {
        "schedulerName": scheduler_name(PLAIN),
        "pluginConfig": [
            {"name": "SecondarySchedulerOptions", "args": {"kubernetesVersion": kubernetes.name}},
        ],
    }
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000},
            "profiles": [*(_profile(variant, kubernetes) for variant in variants()), plain],
        },
        indent=1,
    )


def document_of(profiles: Sequence[Json], kubeconfig: str) -> str:
    """A configuration of scheduler-plugins, or of ours beside it, as JSON, which is YAML."""
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000},
            "profiles": profiles,
        }
    )
