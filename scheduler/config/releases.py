"""What the releases of scheduler-plugins decode and have, from 0.22 on: where one differs from the newest.

Read at these tags of kubernetes-sigs/scheduler-plugins, the newest patch of each minor: v0.22.6, v0.23.10, v0.24.9,
v0.25.12, v0.26.7, v0.27.9, v0.28.9, v0.29.8, v0.30.12, v0.31.8, v0.32.7, v0.33.5, v0.34.7, v0.35.4-devel, and master at
903da7df, of which v0.35.7 was made. The tables name the paths; benchmarks/NOTES.md has what the binaries said:

- cmd/scheduler/main.go: the names that a release registers;
- apis/config/VERSION/types.go and register.go (below pkg/ in 0.22): args by API version;
- the methods of the plugins' types below pkg/: extension points.

And at the tag of Kubernetes that its go.mod names (v1.22.6 for v0.22.6, and so on):

- config/VERSION/types.go and types_pluginargs.go of k8s.io/kube-scheduler: fields of the configuration, in-tree args;
- pkg/scheduler/framework/plugins of k8s.io/kubernetes: registry.go, and the methods of the plugins' types;
- pkg/scheduler/apis/config/validation/validation.go: names that a version refuses.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from scheduler.catalog import IN_TREE, ExtensionPoint, PluginDescriptor, descriptors, lookup

Patch = tuple[int, int]
"""Minor and patch of a release 0.minor.patch."""

_LATEST = 1 << 16
_LEGACY = frozenset({"v1beta1", "v1beta2", "v1beta3"})


class ReleaseRange(NamedTuple):
    """The releases, and the API versions, that have something.

    Attributes:
        since, until: the first and the last release; all patches where only the minor is given.
        versions: of kubescheduler.config.k8s.io; empty for all.
    """

    since: Patch = (22, 0)
    until: Patch = (_LATEST, 0)
    versions: frozenset[str] = frozenset()

    def covers(self, release: Patch, version: str | None) -> bool:
        """Tell whether a release has it, in an API version; None for any."""
        in_version = not self.versions or version is None or version in self.versions
        return self.since <= release <= self.until and in_version

    def explained(self, release: Patch, subject: str = "it") -> str:
        """Return where else it is: `0.34 and later have it`."""
        if self.since[0] == _LATEST:
            return f"no release of scheduler-plugins has {subject}"
        if release < self.since:
            in_version = f" in {' and '.join(sorted(self.versions))}" if self.versions else ""
            return f"{_name(self.since)} and later have {subject}{in_version}"
        if release > self.until:
            return f"the last to have {subject} was {_name(self.until)}"
        return f"{subject} is in {' and '.join(sorted(self.versions))} only"


def _since(minor: int, patch: int = 0, *versions: str) -> ReleaseRange:
    return ReleaseRange((minor, patch), versions=frozenset(versions))


def _until(minor: int, patch: int = _LATEST, *versions: str) -> ReleaseRange:
    return ReleaseRange(until=(minor, patch), versions=frozenset(versions))


_NEVER = ReleaseRange(since=(_LATEST, 0))


def _only(*versions: str) -> ReleaseRange:
    return ReleaseRange(versions=frozenset(versions))


def _name(patch: Patch) -> str:
    return f"0.{patch[0]}" if patch[1] in (0, _LATEST) else f"0.{patch[0]}.{patch[1]}"


VERSIONS: Mapping[int, tuple[str, ...]] = MappingProxyType(
    {
        22: ("v1beta2", "v1beta1"),
        **dict.fromkeys((23, 24), ("v1beta3", "v1beta2")),
        **dict.fromkeys((25, 26, 27), ("v1", "v1beta3", "v1beta2")),
        28: ("v1", "v1beta3"),
        **dict.fromkeys(range(29, 36), ("v1",)),
    }
)
"""API versions by minor, the newest first (apis/config/VERSION; pkg/scheduler/apis/config/scheme)."""

_OF_SCHEDULER_PLUGINS = frozenset(
    {
        "CapacityScheduling", "Coscheduling", "LoadVariationRiskBalancing", "NodeResourcesAllocatable",
        "NodeResourceTopologyMatch", "PodState", "PreemptionToleration", "QOSSort", "TargetLoadPacking",
    }
)  # fmt: skip
"""Those that every release registers (cmd/scheduler/main.go)."""

_NEEDS_ARGS = frozenset({"v1beta3", "v1"})
"""In v1beta2 these plugins have no args, without which they refuse to start, as PreemptionToleration does in v1beta1
(apis/config/v1beta2/register.go, and New in pkg/networkaware and pkg/trimaran/lowriskovercommitment)."""
_PLUGINS: Mapping[str, ReleaseRange] = MappingProxyType(
    {
        # cmd/scheduler/main.go
        "CrossNodePreemption": _until(22),
        "NetworkOverhead": ReleaseRange((24, 0), versions=_NEEDS_ARGS),
        "TopologicalSort": ReleaseRange((24, 0), versions=_NEEDS_ARGS),
        "LowRiskOverCommitment": ReleaseRange((26, 0), versions=_NEEDS_ARGS),
        "PreemptionToleration": _only("v1beta2", "v1beta3", "v1"),
        "SySched": _since(28),
        "Peaks": _since(31),
        "NodeMetadata": _since(35, 7),
        # pkg/scheduler/framework/plugins/registry.go
        "SchedulingGates": _since(26),
        "DynamicResources": _since(26),
        "NodeDeclaredFeatures": _since(35),
        "GangScheduling": _since(35),
        "NodeLabel": _until(22, _LATEST, "v1beta1"),
        "ServiceAffinity": _until(22, _LATEST, "v1beta1"),
        "NodePreferAvoidPods": _until(22, _LATEST, "v1beta1"),
        "NodeResourcesLeastAllocated": _until(22, _LATEST, "v1beta1"),
        "NodeResourcesMostAllocated": _until(22, _LATEST, "v1beta1"),
        "RequestedToCapacityRatio": _until(22, _LATEST, "v1beta1"),
        "SelectorSpread": ReleaseRange(until=(28, _LATEST), versions=_LEGACY),
        **dict.fromkeys(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"), _until(30)),
    }
)
"""Plugins that some releases do not have, or not in each API version. In-tree plugins that are not here are in all."""

_GONE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "CrossNodePreemption": ("postFilter",),
        "NodeLabel": ("filter", "score"),
        "ServiceAffinity": ("preFilter", "filter", "score"),
        "NodePreferAvoidPods": ("score",),
        "NodeResourcesLeastAllocated": ("score",),
        "NodeResourcesMostAllocated": ("score",),
        "RequestedToCapacityRatio": ("score",),
        "SelectorSpread": ("preScore", "score"),
        "AzureDiskLimits": ("preFilter", "filter"),
        "CinderLimits": ("preFilter", "filter"),
        "EBSLimits": ("preFilter", "filter"),
        "GCEPDLimits": ("preFilter", "filter"),
    }
)
"""Extension points of plugins that this scheduler does not know."""

_POINTS: Mapping[str, Mapping[str, ReleaseRange]] = MappingProxyType(
    {
        # pkg/coscheduling/coscheduling.go
        "Coscheduling": {"postBind": _until(25)},
        # pkg/noderesourcetopology/plugin.go
        "NodeResourceTopologyMatch": {"reserve": _since(24), "postBind": _since(26), "preFilter": _since(35, 7)},
        # pkg/scheduler/framework/plugins
        "NodeResourcesFit": {"preScore": _since(27)},
        "NodeResourcesBalancedAllocation": {"preScore": _since(27)},
        "VolumeZone": {"preFilter": _since(27)},
        "NodeVolumeLimits": {"preFilter": _since(28)},
        "AzureDiskLimits": {"preFilter": _since(28)},
        "CinderLimits": {"preFilter": _since(28)},
        "EBSLimits": {"preFilter": _since(28)},
        "GCEPDLimits": {"preFilter": _since(28)},
        "VolumeBinding": {"preScore": _since(30)},
        "DefaultPreemption": {"preEnqueue": _since(32)},
        "GangScheduling": {"reserve": _since(35), "preFilter": _NEVER},
        "DynamicResources": {
            "preScore": _until(31),
            "postBind": _until(31),
            "preEnqueue": _since(28),
            "preBind": _since(30),
            "score": _since(35),
        },
    }
)
"""Extension points that a plugin has in some releases only."""

_PROVIDER = {"metricProvider.insecureSkipVerify": _since(23)}
FIELDS: Mapping[str, Mapping[str, ReleaseRange]] = MappingProxyType(
    {
        # config/VERSION/types.go of k8s.io/kube-scheduler
        "": {
            "delayCacheUntilActive": _since(28, 0, "v1"),
            "healthzBindAddress": _only("v1beta1", "v1beta2"),
            "metricsBindAddress": _only("v1beta1", "v1beta2"),
            "percentageOfPlacementsToScore": _since(38),
            "profiles[].percentageOfNodesToScore": _since(26, 0, "v1"),
            "profiles[].percentageOfPlacementsToScore": _since(38),
            "profiles[].plugins.multiPoint": _since(23),
            "profiles[].plugins.preEnqueue": _since(26),
            "profiles[].plugins.placementGenerate": _since(36),
            "profiles[].plugins.placementScore": _since(36),
            "profiles[].plugins.podGroupPostFilter": _since(37),
            "profiles[].plugins.placementFeasible": _since(38),
        },
        # config/VERSION/types_pluginargs.go of k8s.io/kube-scheduler; constraints: k8s.io/api core/v1
        "InterPodAffinity": {"ignorePreferredTermsOfExistingPods": _since(27)},
        "DynamicResources": {"bindingTimeout": _since(35)},
        "PodTopologySpread": {
            "defaultConstraints[].minDomains": _since(24),
            **{
                f"defaultConstraints[].{field}": _since(25)
                for field in ("matchLabelKeys", "nodeAffinityPolicy", "nodeTaintsPolicy")
            },
        },
        # apis/config/VERSION/types.go
        "CapacityScheduling": {"kubeConfigPath": _only("v1beta1")},
        "Coscheduling": {
            "deniedPGExpirationTimeSeconds": _only("v1beta1", "v1beta2"),
            "kubeMaster": _only("v1beta1"),
            "kubeConfigPath": _only("v1beta1"),
            "podGroupBackoffSeconds": _since(26),
            "podGroupRejectPercentage": _since(34),
        },
        "LoadVariationRiskBalancing": _PROVIDER,
        "TargetLoadPacking": _PROVIDER,
        "NodeResourceTopologyMatch": {
            "kubeconfigpath": _only("v1beta1"),
            "masteroverride": _only("v1beta1"),
            "cacheResyncPeriodSeconds": _since(24),
            "discardReservedNodes": _since(26),
            "cache": _since(26),
            "cache.informerMode": _since(28),
            "cache.resyncScope": _since(29),
            "preemptionMode": _since(35, 7),
        },
    }
)
"""Fields that some releases, or API versions, do not have: of the configuration ("") and of the args of plugins, by
path."""

WITHOUT_ARGS: Mapping[str, ReleaseRange] = MappingProxyType({"DynamicResources": _until(33)})
"""Releases in which a plugin takes no args: it ignores any."""

VALUES: Mapping[str, Mapping[str, Mapping[str, ReleaseRange]]] = MappingProxyType(
    {"NodeResourceTopologyMatch": {"scoringStrategy.type": {"LeastNUMANodes": _since(25)}}}
)
"""Values of text fields that some releases do not have, by plugin and path (apis/config/VERSION/types.go)."""


def plugin_span(name: str) -> ReleaseRange | None:
    """Return the releases that have a plugin; None for a name that none has."""
    if name in _PLUGINS:
        return _PLUGINS[name]
    is_catalogued = name in _OF_SCHEDULER_PLUGINS or any(descriptor.name == name for descriptor in IN_TREE)
    return ReleaseRange() if is_catalogued else None


def point_span(name: str, point: ExtensionPoint) -> ReleaseRange | None:
    """Return the releases in which a plugin has an extension point; None where that never changed."""
    return _POINTS.get(name, {}).get(point.value)


def last_with(name: str, point: ExtensionPoint) -> str:
    """Return the last release in which a plugin had an extension point that it lost since; empty for none."""
    span = point_span(name, point)
    return _name(span.until) if span is not None and span.until[0] != _LATEST else ""


@dataclass(frozen=True, slots=True)
class Release:
    """A release 0.minor.patch. Of a patch that was not read, what its minor has with that number is taken."""

    minor: int
    patch: int = _LATEST

    @property
    def versions(self) -> tuple[str, ...]:
        """API versions that its binary decodes, the newest first."""
        return VERSIONS[self.minor]

    @property
    def number(self) -> Patch:
        """Minor and patch."""
        return (self.minor, self.patch)

    def find(self, name: str) -> PluginDescriptor | None:
        """Return a plugin that it registers, with the extension points that it has there."""
        span = plugin_span(name)
        if span is None or not span.covers(self.number, None):
            return None
        catalogued = lookup(name)
        descriptor = catalogued or PluginDescriptor(name, frozenset(map(ExtensionPoint, _GONE[name])), implemented=True)
        spans = _POINTS.get(name, {})
        unchanged = {point for point in descriptor.points if point.value not in spans}
        had = {ExtensionPoint(point) for point, span in spans.items() if span.covers(self.number, None)}
        return descriptor.with_points(frozenset(unchanged | had))

    def names(self) -> Iterator[str]:
        """Yield the names that it registers."""
        yield from (each.name for each in descriptors() if each.points and self.find(each.name) is not None)
        yield from (name for name in _GONE if self.find(name) is not None)


def ignores_args(plugin: str, release: Release | None) -> bool:
    """Tell whether a plugin takes no args in a release."""
    span = WITHOUT_ARGS.get(plugin)
    return release is not None and span is not None and span.covers(release.number, None)
