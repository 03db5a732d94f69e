"""Upstream's flags that do nothing here, and its feature gates: accepted, so that a command line of kube-scheduler 1.34
starts this one, and named in the log where they ask for something that does not happen."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

_BEARER = "clients are known by bearer tokens only, which the API server reviews"
_HTTP1 = "HTTP/1.1 is served"
_NO_PPROF = "there is no /debug/pprof"
_AT_ONCE = "each line is written at once, to stderr"
_SERIES = "every metric is shown as it is"


class IdleFlag(NamedTuple):
    """A flag of upstream's that has no effect.

    Attributes:
        name: without the dashes.
        reason: why nothing follows from it.
        boolean: whether it may stand without a value, as Go's boolean flags do.
        already: values that ask for what happens anyway; these are not worth a warning.
    """

    name: str
    reason: str
    boolean: bool = False
    already: frozenset[str] = frozenset()


_TRUE, _FALSE = frozenset({"true", "t", "1"}), frozenset({"false", "f", "0"})
IDLE_FLAGS: Final = (
    IdleFlag("cert-dir", "a certificate of our own is made in memory and never stored"),
    IdleFlag("disable-http2-serving", _HTTP1, boolean=True, already=_TRUE),
    IdleFlag("http2-max-streams-per-connection", _HTTP1),
    IdleFlag("tls-sni-cert-key", "one certificate is served, whatever name a client asks for"),
    IdleFlag("tls-curve-preferences", "OpenSSL chooses the curve"),
    IdleFlag("authentication-skip-lookup", _BEARER, boolean=True, already=_TRUE),
    IdleFlag("authentication-tolerate-lookup-failure", _BEARER, boolean=True, already=_TRUE),
    IdleFlag("client-ca-file", _BEARER),
    IdleFlag("requestheader-allowed-names", _BEARER),
    IdleFlag("requestheader-client-ca-file", _BEARER),
    IdleFlag("requestheader-extra-headers-prefix", _BEARER),
    IdleFlag("requestheader-group-headers", _BEARER),
    IdleFlag("requestheader-uid-headers", _BEARER),
    IdleFlag("requestheader-username-headers", _BEARER),
    IdleFlag(
        "emulated-version",
        "the version to behave as is that of the cluster, or SecondarySchedulerOptions.kubernetesVersion",
        already=frozenset({""}),
    ),
    IdleFlag("min-compatibility-version", "no feature depends on the version of other components"),
    IdleFlag("allow-metric-labels", _SERIES),
    IdleFlag("allow-metric-labels-manifest", _SERIES),
    IdleFlag("show-hidden-metrics-for-version", "no metric is hidden"),
    IdleFlag("log-flush-frequency", _AT_ONCE),
    IdleFlag("log-json-info-buffer-size", _AT_ONCE, already=frozenset({"0"})),
    IdleFlag("log-json-split-stream", _AT_ONCE, boolean=True, already=_FALSE),
    IdleFlag("log-text-info-buffer-size", _AT_ONCE, already=frozenset({"0"})),
    IdleFlag("log-text-split-stream", _AT_ONCE, boolean=True, already=_FALSE),
    IdleFlag("vmodule", "one verbosity holds for all modules: -v"),
)

ON_GATES: Final = frozenset(
    {
        "ContextualLogging",
        "DRAAdminAccess",
        "DRAPrioritizedList",
        "DRASchedulerFilterTimeout",
        "DynamicResourceAllocation",
        "InPlacePodVerticalScaling",
        "LoggingBetaOptions",
        "MatchLabelKeysInPodTopologySpread",
        "MatchLabelKeysInPodTopologySpreadSelectorMerge",
        "PodLevelResources",
        "PodObservedGenerationTracking",
        "SchedulerAsyncPreemption",
        "SchedulerPopFromBackoffQ",
        "SchedulerQueueingHints",
        "VolumeAttributesClass",
    }
)
"""What is on in kube-scheduler 1.34 and concerns a scheduler: so it is here."""
OFF_GATES: Final = frozenset(
    {
        "AllAlpha",
        "ClearingNominatedNodeNameAfterBinding",
        "ComponentFlagz",
        "ComponentStatusz",
        "CoordinatedLeaderElection",
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAPartitionableDevices",
        "LoggingAlphaOptions",
        "MutableCSINodeAllocatableCount",
        "NominatedNodeNameForExpectation",
        "SchedulerAsyncAPICalls",
        "StorageCapacityScoring",
        "WatchListClient",
    }
)
"""What is off there and concerns a scheduler."""
SETTABLE_GATES: Final = frozenset({"SchedulerPopFromBackoffQ"})
"""What can be chosen."""
_GATE = re.compile(r"(?:(?P<component>[a-z][a-z0-9-]*):)?(?P<name>[A-Za-z0-9]+)=(?P<value>\w+)")


@dataclass(frozen=True, slots=True)
class IdleSetting:
    """Something of the command line that has no effect: what was written, and why."""

    written: str
    reason: str


def feature_gates(text: str) -> dict[str, bool]:
    """Read a value of `--feature-gates`: pairs such as `kube:Name=true`, separated by commas.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    gates: dict[str, bool] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        match = _GATE.fullmatch(pair)
        value = match["value"].lower() if match else ""
        if match is None or value not in _TRUE | _FALSE:
            raise argparse.ArgumentTypeError(f"{pair!r} is no feature gate; write Name=true or kube:Name=false")
        if match["component"] not in (None, "kube"):
            raise argparse.ArgumentTypeError(
                f"component {match['component']!r} is not registered; write kube:Name=true"
            )
        gates[match["name"]] = value in _TRUE
    return gates


def idle_gates(gates: Mapping[str, bool]) -> Iterator[IdleSetting]:
    """Yield the gates that ask for something else than what happens."""
    for name, value in gates.items():
        if name in SETTABLE_GATES or (name in ON_GATES and value) or (name in OFF_GATES and not value):
            continue
        written = f"--feature-gates {name}={'true' if value else 'false'}"
        if name in ON_GATES:
            yield IdleSetting(written, "it is always on")
        elif name in OFF_GATES:
            yield IdleSetting(written, "it does not exist here")
        else:
            yield IdleSetting(written, "no feature of a scheduler has this name")


def add_idle_flags(group: argparse._ArgumentGroup) -> None:
    """Accept the flags of `IDLE_FLAGS`."""
    for flag in IDLE_FLAGS:
        if flag.boolean:
            group.add_argument(f"--{flag.name}", nargs="?", const="true", metavar="BOOL", help=argparse.SUPPRESS)
        else:
            group.add_argument(f"--{flag.name}", metavar="VALUE", help=argparse.SUPPRESS)


def idle_settings(parsed: argparse.Namespace) -> Iterator[IdleSetting]:
    """Yield the flags of `IDLE_FLAGS` that were given and ask for something that does not happen."""
    for flag in IDLE_FLAGS:
        value = getattr(parsed, flag.name.replace("-", "_"))
        if value is not None and value.lower() not in flag.already:
            yield IdleSetting(f"--{flag.name}", flag.reason)


def with_dashes(arguments: Iterable[str]) -> Iterator[str]:
    """Yield arguments with underscores in names of flags as dashes: as upstream, `--secure_port` is `--secure-port`."""
    for argument in arguments:
        if not argument.startswith("--"):
            yield argument
            continue
        name, equals, value = argument.partition("=")
        yield f"{name.replace('_', '-')}{equals}{value}"
