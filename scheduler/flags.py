"""Upstream's flags that do nothing here, and its feature gates: accepted, so that a command line of kube-scheduler 1.34
starts this one, and named in the log where they ask for something that does not happen."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from scheduler.catalog import METRIC_CREDENTIALS_DIRECTORY, CredentialRules, address_problem
from scheduler.gates import GATES, POD_GROUP_GATES, SETTABLE_GATES, UNBUILT_GATES, always

_NO_PROXY = "clients are known by their own token or certificate, not by what a front proxy says"
_HTTP1 = "HTTP/1.1 is served"
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
    IdleFlag("requestheader-allowed-names", _NO_PROXY),
    IdleFlag("requestheader-client-ca-file", _NO_PROXY),
    IdleFlag("requestheader-extra-headers-prefix", _NO_PROXY),
    IdleFlag("requestheader-group-headers", _NO_PROXY),
    IdleFlag("requestheader-uid-headers", _NO_PROXY),
    IdleFlag("requestheader-username-headers", _NO_PROXY),
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

_POD_GROUPS_NOT_FOLLOWED = (
    "of the PodGroups of scheduling.k8s.io minCount and one topology are followed, with GenericWorkload and "
    "GangScheduling: no preemption for a group below its minCount, and no CompositePodGroups"
)
_GATE = re.compile(r"(?:(?P<component>[a-z][a-z0-9-]*):)?(?P<name>[A-Za-z0-9]+)=(?P<value>\w+)")


class IdleSetting(Struct, frozen=True):
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
        default = always(name)
        if name in SETTABLE_GATES or value is default:
            continue
        written = f"--feature-gates {name}={'true' if value else 'false'}"
        if name not in GATES:
            yield IdleSetting(written, "no feature of a scheduler has this name")
        elif name in POD_GROUP_GATES:
            yield IdleSetting(written, _POD_GROUPS_NOT_FOLLOWED)
        elif default is None:
            yield IdleSetting(written, "it follows the version that a profile behaves as")
        else:
            exists = default and name not in UNBUILT_GATES
            yield IdleSetting(written, "it is always on" if exists else "it does not exist here")


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


_DEFAULTS: Final = {
    "allow-metric-labels": "[]",
    "contention-profiling": "true",
    "disable-http2-serving": "false",
    "emulated-version": "[]",
    "help": "false",
    "http2-max-streams-per-connection": "0",
    "kube-api-burst": "100",
    "kube-api-content-type": "application/vnd.kubernetes.protobuf",
    "kube-api-qps": "50",
    "leader-elect": "true",
    "leader-elect-lease-duration": "15s",
    "leader-elect-renew-deadline": "10s",
    "leader-elect-resource-lock": "leases",
    "leader-elect-resource-name": "kube-scheduler",
    "leader-elect-resource-namespace": "kube-system",
    "leader-elect-retry-period": "2s",
    "log-flush-frequency": "5s",
    "log-json-info-buffer-size": "0",
    "log-json-split-stream": "false",
    "log-text-info-buffer-size": "0",
    "log-text-split-stream": "false",
    "min-compatibility-version": "[]",
    "profiling": "true",
    "requestheader-allowed-names": "[]",
    "requestheader-extra-headers-prefix": "[x-remote-extra-]",
    "requestheader-group-headers": "[x-remote-group]",
    "requestheader-uid-headers": "[]",
    "requestheader-username-headers": "[x-remote-user]",
    "tls-curve-preferences": "[]",
    "tls-sni-cert-key": "[]",
    "version": "false",
}
"""What kube-scheduler shows of flags that were not given and whose default does not stand in the parser."""


def shown_flags(
    parser: argparse.ArgumentParser, parsed: argparse.Namespace, written: Mapping[object, Callable[[float], str]]
) -> dict[str, str]:
    """Return the value of every flag by its name, as Go writes it.

    `written` says for the types of flags that are kept as another number than the user writes how he writes them.
    """
    shown: dict[str, str] = {}
    for action in parser._actions:
        name = action.option_strings[-1].removeprefix("--")
        value = getattr(parsed, action.dest, None)
        form = written.get(action.type)
        if form is not None and isinstance(value, float):
            shown[name] = form(value)
        else:
            shown[name] = _DEFAULTS.get(name, "") if value is None else _as_go(value, name)
    return shown


def _as_go(value: object, name: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if name == "feature-gates" and isinstance(value, list):
        gates = [f":{gate}={str(on).lower()}" for each in value for gate, on in each.items()]
        return ",".join(gates)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(str, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def with_dashes(arguments: Iterable[str]) -> Iterator[str]:
    """Yield arguments with underscores in names of flags as dashes: as upstream, `--secure_port` is `--secure-port`."""
    for argument in arguments:
        if not argument.startswith("--"):
            yield argument
            continue
        name, equals, value = argument.partition("=")
        yield f"{name.replace('_', '-')}{equals}{value}"


def add_credential_flags(group: argparse._ArgumentGroup) -> None:
    """Add them, for a program beside the scheduler, whose own have defaults from its environment."""
    group.add_argument("--metric-credentials-directory", metavar="DIR", default=METRIC_CREDENTIALS_DIRECTORY)
    group.add_argument("--metric-credentials-address", type=source_address, metavar="URL")
    group.add_argument("--metric-service-account-token", metavar="FILE")
    group.add_argument("--allow-insecure-metric-credentials", action="store_true")


def source_address(text: str) -> str:
    """The type of `--metric-credentials-address`."""
    if problem := address_problem(text):
        raise argparse.ArgumentTypeError(problem)
    return text


def credential_rules(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> CredentialRules:
    """Return what the flags say; a token without the address it is for ends the process with code 2."""
    if parsed.metric_service_account_token and not parsed.metric_credentials_address:
        parser.error("--metric-service-account-token needs --metric-credentials-address, the only place it is sent to")
    return CredentialRules(
        parsed.metric_credentials_directory,
        parsed.metric_credentials_address,
        parsed.metric_service_account_token,
        parsed.allow_insecure_metric_credentials,
    )
