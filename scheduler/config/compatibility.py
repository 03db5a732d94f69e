"""Compatibility of the versions of operator, scheduler image and cluster, by the table in compatibility.yaml."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from scheduler.config.document import read_document
from scheduler.config.flavours import Flavour, split_image

Subject = Literal["operator", "scheduler", "cluster"]

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+_].*)?")
_UPSTREAM_OPERATOR = re.compile(r"(^|/)(cluster-)?secondary-scheduler-(rhel\d+-)?operator$")
_OUR_OPERATOR = re.compile(r"(^|/)secondary-scheduler/operator$")

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class OperatorRelease:
    """An operator, as identified by its image or ClusterServiceVersion.

    Attributes:
        is_ours: this project's; otherwise OpenShift's.
        version: None if it is not known.
    """

    is_ours: bool
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class ClusterVersions:
    """Versions of the cluster; None where they are not known."""

    kubernetes: str | None = None
    openshift: str | None = None


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """Two incompatible versions.

    Attributes:
        subject: whose version should change.
        message: which versions are incompatible and why; after a semicolon, what to do.
    """

    subject: Subject
    message: str


def parse_version(text: str) -> Version | None:
    """Return major, minor and patch level (default 0) of `1.34`, `v1.34.7` or `4.17.3-rc.1`; None for other texts."""
    match = _VERSION.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def operator_of(image: str) -> OperatorRelease | None:
    """Return the operator of an image; None for an image that is neither ours nor OpenShift's."""
    repository, tag = split_image(image)
    if _OUR_OPERATOR.search(repository):
        return OperatorRelease(True, parse_version(tag))
    return OperatorRelease(False, parse_version(tag)) if _UPSTREAM_OPERATOR.search(repository) else None


def operator_of_csv(name: str) -> OperatorRelease | None:
    """Return the operator of a ClusterServiceVersion's name, such as `secondaryscheduleroperator.v1.5.0`, or None."""
    package, _, version = name.partition(".")
    return OperatorRelease(False, parse_version(version)) if package == "secondaryscheduleroperator" else None


def lease_timings(operator: OperatorRelease | None) -> Mapping[str, str] | None:
    """Return the Lease timings that an operator passes to the scheduler as flags; None if it passes none.

    An empty mapping means the defaults of this project's operator.
    """
    if operator is None or operator.is_ours or operator.version is None:
        return {}
    flags = _table()["leaseFlags"]
    if operator.version < _version(flags["since"]):
        return None
    return {key: value for key, value in flags.items() if key != "since"}


def incompatibilities(
    cluster: ClusterVersions, operator: OperatorRelease | None, scheduler_image: str, flavour: Flavour
) -> Iterator[Incompatibility]:
    """Yield all known incompatibilities; nothing is reported about versions that are not known.

    Args:
        cluster: the known versions of the cluster.
        operator: the operator that runs the scheduler; None without one, or for one that is not known.
        scheduler_image: reference of the scheduler's image.
        flavour: of that image.
    """
    yield from _check_cluster(cluster)
    if operator is not None:
        yield from _check_operator(operator, cluster)
    yield from _check_image(scheduler_image, flavour)
    yield from _check_scheduler(flavour, cluster)


def kubernetes_minor(cluster: ClusterVersions) -> int | None:
    """Return the minor version of the cluster's Kubernetes 1.x, or of that which its OpenShift is made of; None where
    neither is named, or the table does not have the OpenShift."""
    version = _kubernetes(cluster)
    return version[1] if version is not None and version[0] == 1 else None


def _check_cluster(cluster: ClusterVersions) -> Iterator[Incompatibility]:
    kubernetes, openshift = _optional_version(cluster.kubernetes), _optional_version(cluster.openshift)
    if openshift is None:
        return
    if kubernetes is None:
        if _kubernetes_of(openshift) is None:
            versions = list(_table()["openshiftToKubernetes"])
            message = (
                f"OpenShift {_minor(openshift)} is not in the table of known versions ({versions[0]} to {versions[-1]})"
            )
            yield Incompatibility("cluster", f"{message}; set kubernetesVersion as well, which says what it is made of")
        return
    expected = _kubernetes_of(openshift)
    if expected is not None and kubernetes[:2] != expected[:2]:
        yield Incompatibility(
            "cluster",
            f"OpenShift {_minor(openshift)} is Kubernetes {_minor(expected)}, not {_minor(kubernetes)}; "
            "remove or correct one of the two",
        )


def _check_operator(operator: OperatorRelease, cluster: ClusterVersions) -> Iterator[Incompatibility]:
    table = _table()
    kubernetes = _kubernetes(cluster)
    if operator.is_ours:
        minimum = _version(table["ours"]["minimum"])
        if kubernetes is not None and kubernetes < minimum:
            yield Incompatibility(
                "operator",
                f"this project's operator needs Kubernetes {_minor(minimum)} or later, not {_minor(kubernetes)}; "
                "update the cluster",
            )
        return
    version = operator.version
    if version is None:
        return
    row = next((row for row in table["operators"] if _covers(row["versions"], version)), None)
    if row is None:
        versions = f"{table['operators'][0]['versions'][0]} to {table['operators'][-1]['versions'][-1]}"
        message = f"operator {_exact(version)} is not in the table of known versions ({versions})"
        yield Incompatibility("operator", f"{message}; check its release notes, or switch off this check")
        return
    openshift = _optional_version(cluster.openshift)
    if openshift is not None and _minor(openshift) not in row["openshift"]:
        fitting = [row for row in table["operators"] if _minor(openshift) in row["openshift"]]
        hint = f"operator {_range(fitting[-1])} supports it" if fitting else "no known operator supports it"
        yield Incompatibility(
            "operator",
            f"operator {_exact(version)} supports OpenShift {', '.join(row['openshift'])}, not {_minor(openshift)}; "
            f"{hint}",
        )
    elif kubernetes is not None and _highest_patch(kubernetes, cluster) < _version(row["minimum"]):
        yield Incompatibility(
            "operator",
            f"operator {_exact(version)} needs Kubernetes {row['minimum']} or later, not {_minor(kubernetes)}; "
            "use an older operator or update the cluster",
        )
    if (
        cluster.openshift is None
        and cluster.kubernetes is not None
        and version >= _version(table["openshiftOnlySince"])
    ):
        yield Incompatibility(
            "operator",
            f"operator {_exact(version)} needs OpenShift's own APIs and does not start the scheduler on plain "
            "Kubernetes; use this project's operator, or set openshiftVersion if the cluster is OpenShift",
        )


def _check_image(image: str, flavour: Flavour) -> Iterator[Incompatibility]:
    table = _table()
    registry = image.partition("/")[0]
    if registry in table["goneRegistries"]:
        instead = table["goneRegistries"][registry]
        message = f"the registry {registry} is frozen: it has not been updated since April 2023"
        yield Incompatibility("scheduler", f"{message}; use the same image from {instead}")
    release = parse_version(split_image(image)[1])
    if flavour.family != "scheduler-plugins" or release is None:
        return
    reason = table["schedulerPlugins"]["broken"].get(_exact(release))
    if reason is not None:
        newest = next(
            version for version in table["schedulerPlugins"]["newest"] if _version(version)[:2] == release[:2]
        )
        yield Incompatibility("scheduler", f"release {_exact(release)} is broken: {reason}; use {newest}")


def _check_scheduler(flavour: Flavour, cluster: ClusterVersions) -> Iterator[Incompatibility]:
    kubernetes = _kubernetes(cluster)
    if kubernetes is None or flavour.family == "custom":
        return
    if flavour.is_ours:
        yield from _check_ours(kubernetes)
        return
    built = (1, flavour.kubernetes)
    fitting = [version for version in _table()["schedulerPlugins"]["newest"] if _version(version)[1] == kubernetes[1]]
    hint = f"use {fitting[0]}" if fitting else "the table has no release for that version"
    origin = f"{flavour.name} is built from Kubernetes 1.{flavour.kubernetes}"
    if built > kubernetes[:2]:
        message = f"{origin}, newer than the cluster's {_minor(kubernetes)}"
        yield Incompatibility("scheduler", f"{message}: it may use APIs that the cluster does not have; {hint}")
    elif kubernetes[1] - flavour.kubernetes > 1:
        message = f"{origin}, more than one release older than the cluster's {_minor(kubernetes)}"
        yield Incompatibility("scheduler", f"{message}, which Kubernetes does not support; {hint}")


def _check_ours(kubernetes: Version) -> Iterator[Incompatibility]:
    ours, minor = _table()["ours"], _minor(kubernetes)
    if minor in ours["kubernetes"]:
        return
    tested = ", ".join(
        f"{version} (upstream's support ended on {ours['supportEnded'][version]})"
        if version in ours["supportEnded"]
        else version
        for version in ours["kubernetes"]
    )
    sampled = f", where only {ours['sampled'][minor]} are tested" if minor in ours["sampled"] else ""
    message = f"this project's scheduler is tested with Kubernetes {tested}, not {minor}{sampled}"
    yield Incompatibility("scheduler", f"{message}; try it on a test cluster first")


def _kubernetes(cluster: ClusterVersions) -> Version | None:
    kubernetes = _optional_version(cluster.kubernetes)
    openshift = _optional_version(cluster.openshift)
    if kubernetes is not None or openshift is None:
        return kubernetes
    return _kubernetes_of(openshift)


def _kubernetes_of(openshift: Version) -> Version | None:
    """The Kubernetes of an OpenShift; None for a release that the table does not have."""
    return _optional_version(_table()["openshiftToKubernetes"].get(_minor(openshift)))


def _highest_patch(kubernetes: Version, cluster: ClusterVersions) -> Version:
    """The version, with the highest patch level if the cluster's is not given."""
    text = cluster.kubernetes or ""
    return kubernetes if text.count(".") > 1 else (kubernetes[0], kubernetes[1], 1 << 16)


def _covers(versions: list[str], version: Version) -> bool:
    if len(versions) == 1:
        return _version(versions[0])[:2] == version[:2]
    return _version(versions[0]) <= version <= _version(versions[1])


def _range(row: Mapping[str, Any]) -> str:
    return str(row["versions"][0]).rpartition(".")[0] if len(row["versions"]) > 1 else str(row["versions"][0])


def _optional_version(text: str | None) -> Version | None:
    return parse_version(text) if text is not None else None


def _version(text: str) -> Version:
    version = parse_version(text)
    if version is None:
        raise ValueError(f'compatibility.yaml: "{text}" is no version')
    return version


def _minor(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _exact(version: Version) -> str:
    return f"{version[0]}.{version[1]}.{version[2]}"


@cache
def _table() -> dict[str, Any]:
    text = files("scheduler.config").joinpath("compatibility.yaml").read_text(encoding="utf-8")
    table: dict[str, Any] = read_document(text, "compatibility.yaml").data
    return table
