"""Which binaries the local cluster runs, at which version, and where each is found or built.

Looked for in this order: the directory `$SECONDARY_SCHEDULER_BIN_DIR` (trusted as it is), PATH (where the table's rule
allows it), the user's cache. What is in none of them is built from its Go module into the cache, once.

The components of Kubernetes come from a release of `releases`; those of others than the default have a directory of
their own in the cache: `minors/1.36.3/bin/kube-apiserver`.
"""

from __future__ import annotations

import enum
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from devcluster import releases
from devcluster.errors import BinaryError
from devcluster.progress import Advance, ProgressReporter
from devcluster.releases import COMPONENTS, DEFAULT, RELEASES, KubernetesRelease
from devcluster.state import cache_root, foreign_path
from devcluster.toolchain import golang

BIN_DIR_VARIABLE = "SECONDARY_SCHEDULER_BIN_DIR"
MODULES = Path(__file__).parent / "modules"
_PULUMI = "3.220.0"
_KWOK = "0.7.0"
_PROMETHEUS = "3.13.4"
_OLM = "0.28.0"
_OLM_MODULE = "github.com/operator-framework/operator-lifecycle-manager"
_OPM = "1.60.0"
_HELM = "3.19.5"
_COSIGN = "2.6.1"
_CRANE = "0.20.6"
_KREW = "0.4.3"
_SCALES = (0.1, 10.0)
"""A machine that seems faster or slower than this has something cached, or something else to do."""
_TELLING = 0.1
"""Of a build, the least part that says how fast the machine is: small packages come first."""
_VERSION_SECONDS = 20
_WORTH_SAYING = 30.0
"""Seconds of building that are announced as a whole."""


class OnPath(enum.Enum):
    """When a binary found on PATH is used."""

    ANY = "any version"
    AT_LEAST = "the oldest that will do, or newer"
    SAME = "exactly the pinned version"


@dataclass(frozen=True)
class Binary:
    """One row of the table: a main package of a Go module of `modules/<group>`."""

    name: str
    group: str
    package: str
    version: str
    ldflags: str = ""
    on_path: OnPath = OnPath.SAME
    command: str = ""
    """Its name on PATH and in the user's directory, where that is not `name`."""
    version_argument: str = "--version"
    tags: str = ""
    """Build tags, separated by commas."""
    oldest: str = ""
    """With AT_LEAST, the oldest version that will do, where that is not `version`."""
    build_seconds: int = 60
    """How long it takes on two cores, with nothing cached but what those before it in the table leave. Only how they
    compare matters: the first one tells how fast a machine is."""
    in_minors: bool = False
    """Whether it is a component of another Kubernetes than the default, with a directory of its release's own."""

    @property
    def file_name(self) -> str:
        """The executable's name as others ship it."""
        return self.command or self.name

    def cache_name(self) -> str:
        """File name in the cache; it changes with everything that goes into the build."""
        digest = hashlib.sha256()
        for part in (MODULES / self.group / "go.mod", MODULES / self.group / "go.sum"):
            digest.update(part.read_bytes())
        digest.update(f"{self.package} {self.ldflags} {golang.BUILD_FLAGS}".encode())
        if self.tags:
            digest.update(self.tags.encode())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"

    def cached(self) -> Path:
        """Where it is in the cache once it is built."""
        if self.in_minors:
            return cache_root() / "minors" / self.version / "bin" / self.file_name
        return bin_cache() / self.cache_name()


_KUBERNETES_SECONDS = {
    "kube-apiserver": 280,
    "kube-controller-manager": 85,
    "kube-scheduler": 8,
    "kubectl": 20,
}


def _olm(command: str, package: str, build_seconds: int) -> Binary:
    flags = f"-X {_OLM_MODULE}/pkg/version.OLMVersion={_OLM}"
    return Binary(command, "olm", f"{_OLM_MODULE}/cmd/{package}", _OLM, flags, build_seconds=build_seconds)


def _kubernetes(name: str, on_path: OnPath = OnPath.SAME, release: KubernetesRelease = RELEASES[DEFAULT]) -> Binary:
    return Binary(
        name,
        release.modules,
        f"k8s.io/kubernetes/cmd/{name}",
        release.version,
        release.ldflags,
        on_path,
        in_minors=release.minor != DEFAULT,
        build_seconds=_KUBERNETES_SECONDS[name],
    )


def _scheduler_plugins(name: str, group: str, version: str, minor: str) -> Binary:
    """A peer that comparisons run against. It is never taken from PATH: there the name means something else."""
    package, flags = "sigs.k8s.io/scheduler-plugins/cmd/scheduler", RELEASES[minor].ldflags
    return Binary(name, group, package, version, flags, command=f"{name}-kube-scheduler")


BINARIES: dict[str, Binary] = {
    binary.name: binary
    for binary in (
        Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3", "3.6.5", build_seconds=115),
        # Restores a snapshot of etcd.
        Binary(
            "etcdutl",
            "etcdutl",
            "go.etcd.io/etcd/etcdutl/v3",
            "3.6.5",
            version_argument="version",
            build_seconds=35,
        ),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kube-scheduler"),
        # A kubectl that the user installed on purpose serves better than ours.
        _kubernetes("kubectl", OnPath.ANY),
        Binary(
            "kwok",
            "kwok",
            "sigs.k8s.io/kwok/cmd/kwok",
            _KWOK,
            f"-X sigs.k8s.io/kwok/pkg/consts.Version={_KWOK}",
            build_seconds=115,
        ),
        # Built without a version stamp, so a release on PATH is recognised and ours is found by its cache name.
        # Without the clients of the clouds, in which it could find targets: they are half of it. Debian 12's has all
        # that the local cluster needs; the alerts are tested by one version of promtool.
        Binary(
            "prometheus",
            "prometheus",
            "github.com/prometheus/prometheus/cmd/prometheus",
            _PROMETHEUS,
            on_path=OnPath.AT_LEAST,
            tags="remove_all_sd",
            oldest="2.42.0",
            build_seconds=130,
        ),
        Binary(
            "promtool",
            "prometheus",
            "github.com/prometheus/prometheus/cmd/promtool",
            _PROMETHEUS,
            tags="remove_all_sd",
            build_seconds=45,
        ),
        Binary(
            "pulumi",
            "pulumi",
            "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            _PULUMI,
            f"-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={_PULUMI}",
            OnPath.AT_LEAST,
            version_argument="version",
            build_seconds=120,
        ),
        _scheduler_plugins("scheduler-plugins", "scheduler-plugins", "0.34.7", "1.34"),
        # The newest that the module proxy serves.
        _scheduler_plugins("scheduler-plugins-0.35", "scheduler-plugins-0.35", "0.35.4-devel", "1.35"),
        # What `python -m benchmarks rebalancing` compares with. Without a version stamp, as prometheus.
        Binary(
            "descheduler",
            "descheduler",
            "sigs.k8s.io/descheduler/cmd/descheduler",
            "0.36.0",
            version_argument="version",
            build_seconds=120,
        ),
        # The operator lifecycle manager. Its commands `olm` and `catalog` have the names of its Deployments here.
        _olm("olm-operator", "olm", 90),
        _olm("catalog-operator", "catalog", 15),
        Binary(
            "opm",
            "opm",
            "github.com/operator-framework/operator-registry/cmd/opm",
            _OPM,
            f"-X github.com/operator-framework/operator-registry/cmd/opm/version.opmVersion=v{_OPM}",
            version_argument="version",
            # Without them it wants C libraries of image stores that it would use for images only.
            tags="json1,containers_image_openpgp,exclude_graphdriver_btrfs",
        ),
        # What signs images, and what pushes and serves them where tests sign some.
        Binary(
            "cosign",
            "cosign",
            "github.com/sigstore/cosign/v2/cmd/cosign",
            _COSIGN,
            f"-X sigs.k8s.io/release-utils/version.gitVersion=v{_COSIGN}",
            version_argument="version",
            build_seconds=200,
        ),
        Binary(
            "crane",
            "cosign",
            "github.com/google/go-containerregistry/cmd/crane",
            _CRANE,
            f"-X github.com/google/go-containerregistry/cmd/crane/cmd.Version=v{_CRANE}",
            version_argument="version",
            build_seconds=15,
        ),
        # What installs plugins of kubectl, and what its index says of their manifests. Without a version stamp.
        *(
            Binary(name, "krew", f"sigs.k8s.io/krew/cmd/{name}", _KREW, version_argument="version", build_seconds=20)
            for name in ("krew", "validate-krew-manifest")
        ),
        # It takes charts' `kubeVersion` for its own if it is not told which Kubernetes its libraries are of.
        Binary(
            "helm",
            "helm",
            "helm.sh/helm/v3/cmd/helm",
            _HELM,
            f"-X helm.sh/helm/v3/internal/version.version=v{_HELM}"
            " -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34"
            " -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=34",
            version_argument="version",
        ),
    )
}


def bin_cache() -> Path:
    """Directory of built binaries."""
    return cache_root() / "bin"


def row(name: str, kubernetes: str | None = None) -> Binary:
    """The row of a binary; that of a component of Kubernetes at a minor, by default `releases.chosen()`.

    kubectl is always the default's: it serves its neighbours, too. Raises SpecError for a minor that cannot be built.
    """
    if name not in COMPONENTS:
        return BINARIES[name]
    release = releases.release_of(kubernetes or releases.chosen())
    lender = RELEASES[release.borrowed.get(name, release.minor)]
    return _kubernetes(name, release=lender)


def find(binary: Binary) -> Path | None:
    """Where the binary is, without building it; None when it would have to be built.

    Raises BinaryError when `$SECONDARY_SCHEDULER_BIN_DIR` is set and is not a directory.
    """
    chosen = os.environ.get(BIN_DIR_VARIABLE)
    if chosen:
        directory = Path(chosen).expanduser().resolve()
        if not directory.is_dir():
            raise BinaryError(f"{BIN_DIR_VARIABLE}={chosen} is not a directory: fix it or unset it")
        own = directory / binary.file_name
        # It is trusted for what the cluster runs by default; nobody meant it for every other minor as well.
        if os.access(own, os.X_OK) and (not binary.in_minors or _acceptable(binary, own)):
            return own
    cached = binary.cached()
    built = cached if os.access(cached, os.X_OK) else None
    if built and binary.on_path is OnPath.SAME:
        # What PATH could offer is the same version, and asking it for its version takes time.
        return built
    on_path = shutil.which(binary.file_name, path=foreign_path())
    if on_path and _acceptable(binary, Path(on_path)):
        return Path(on_path)
    return built


def missing(names: Iterable[str], kubernetes: str | None = None) -> list[str]:
    """Those of the named binaries that `ensure` would build. Raises BinaryError and SpecError as it does."""
    return [name for name in names if find(row(name, kubernetes)) is None]


def ensure(names: Iterable[str], report: ProgressReporter, kubernetes: str | None = None) -> dict[str, Path]:
    """Paths of the named binaries; those found nowhere are built, one after the other, with a progress line each.

    `kubernetes` is the minor whose components are meant, by default `releases.chosen()`. Raises BinaryError with one
    line: no Go and none to be had, no network, no disk space, or the compiler's complaint; SpecError for a minor that
    cannot be built.
    """
    paths: dict[str, Path] = {}
    absent: list[Binary] = []
    for name in names:
        binary = row(name, kubernetes)
        path = find(binary)
        if path is None:
            absent.append(binary)
        else:
            paths[name] = path
    if absent:
        with golang.build_lock(bin_cache(), report):
            # Somebody else may have built them while we waited for the lock.
            unbuilt = [binary for binary in absent if find(binary) is None]
            if unbuilt:
                _build(unbuilt, report)
        paths |= {binary.name: binary.cached() for binary in absent}
    return paths


def _build(wanted: list[Binary], report: ProgressReporter) -> None:
    golang.require_space(bin_cache(), [binary.name for binary in wanted])
    go = golang.find_go(cache_root(), report, max(golang.required(MODULES / binary.group) for binary in wanted))
    estimate = Estimate([binary.build_seconds for binary in wanted])
    if estimate.left >= _WORTH_SAYING:
        names = ", ".join(binary.name for binary in wanted)
        report.note(
            f"Built from source, once: {names}. On two idle cores that takes {about(estimate.left)}, and longer where "
            "downloads are slow."
        )
    with golang.downloading(go, [(MODULES / binary.group, binary.package, binary.tags) for binary in wanted[1:]]):
        for number, binary in enumerate(wanted, 1):
            counter = f" ({number} of {len(wanted)})" if len(wanted) > 1 else ""
            began = time.monotonic()
            with report.step(f"building {binary.name} {binary.version}{counter}", announce=True) as advance:
                module = MODULES / binary.group
                with_time = _WithTimeLeft(advance, estimate)
                golang.build(go, module, binary.package, binary.ldflags, binary.cached(), binary.tags, with_time)
            estimate.finished(time.monotonic() - began)


class Estimate:
    """Measured seconds per build, scaled by those that are finished here."""

    def __init__(self, seconds: Iterable[float]) -> None:
        """Take what each build took elsewhere, in order; all are above 0."""
        self._expected = deque(seconds)
        self._finished_there = 0.0
        self._finished_here = 0.0

    @property
    def left(self) -> float:
        """Seconds until the last build is finished, about."""
        return self.left_during(0.0, 0.0)

    def left_during(self, part: float, seconds: float) -> float:
        """As `left`, when `part` of the next build, from 0 to 1, took `seconds` here."""
        done = part * self._expected[0] if self._expected else 0.0
        measured, seconds_here = self._finished_there, self._finished_here
        if part >= _TELLING:
            measured, seconds_here = measured + done, seconds_here + seconds
        scale = seconds_here / measured if measured else 1.0
        return (sum(self._expected) - done) * min(max(scale, _SCALES[0]), _SCALES[1])

    def finished(self, seconds: float) -> None:
        """Note that the next build took so long here."""
        self._finished_there += self._expected.popleft()
        self._finished_here += seconds


def about(seconds: float) -> str:
    """Return a duration in words that promise no more than is known: `less than a minute`, `about 4 min`."""
    return "less than a minute" if seconds < 55 else f"about {max(1, round(seconds / 60))} min"


class _WithTimeLeft:
    """An `Advance` that also says how long all builds will take, once packages are compiled."""

    def __init__(self, advance: Advance, estimate: Estimate) -> None:
        self._advance = advance
        self._estimate = estimate
        self._compiling_since: float | None = None

    def __call__(self, done: int, total: int, unit: str) -> None:
        if total:
            # Downloads before that say nothing of how fast it compiles.
            self._compiling_since = self._compiling_since or time.monotonic()
            left = self._estimate.left_during(done / total, time.monotonic() - self._compiling_since)
            unit = f"{unit}, {about(left)} left"
        self._advance(done, total, unit)


def _acceptable(binary: Binary, path: Path) -> bool:
    if binary.on_path is OnPath.ANY:
        return True
    version = _version_of(binary, path)
    if version is None:
        return False
    if binary.on_path is OnPath.SAME:
        return version == binary.version
    return _numbers(version) >= _numbers(binary.oldest or binary.version)


def _version_of(binary: Binary, path: Path) -> str | None:
    try:
        answer = subprocess.run(
            [path, binary.version_argument],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=False,
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "1"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bv?(\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?)", answer.stdout + answer.stderr)
    return match.group(1) if match else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.partition("-")[0].split("."))
