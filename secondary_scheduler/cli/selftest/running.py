"""A run of the self-test: what it will make, the steps, and the removal of all it made."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from scheduler import __version__
from scheduler.config import CUSTOM, DEFAULT_SCHEDULER_NAME, OURS, flavour_of, load_configuration
from scheduler.kube.client import ClientConfig
from scheduler.kube.primitives import format_seconds
from scheduler.operand import cluster_roles_for
from secondary_scheduler.cli.errors import CommandError, ExitCode, printable
from secondary_scheduler.cli.output import FullOutputFormat, document_text
from secondary_scheduler.cli.selftest.auditlog import AuditLog, held_rights
from secondary_scheduler.cli.selftest.bench import WITH_ROOM, Bench, find_usable
from secondary_scheduler.cli.selftest.instances import instances_of
from secondary_scheduler.cli.selftest.loadsource import LoadSource
from secondary_scheduler.cli.selftest.objects import (
    LEASE,
    Names,
    OwnCluster,
    Right,
    needed_rights,
    scaffold,
)
from secondary_scheduler.cli.selftest.report import SelfTestReport, markdown, page
from secondary_scheduler.cli.selftest.steps import STEPS, results
from secondary_scheduler.clustersnapshot.reading import read_snapshot
from secondary_scheduler.clusterstatus.listing import read_object
from secondary_scheduler.kubeobjects import KubeObject
from secondary_scheduler.simulation.cluster import PodSelection
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.simulation.settingup import Conditions, ReadyCluster, set_up

_API_VERSION = "kubescheduler.config.k8s.io/v1"
_GROUPS = ("scheduling.x-k8s.io/v1alpha1", "podgroups")
_GANG_RIGHTS = tuple(Right(verb, "scheduling.x-k8s.io", "podgroups") for verb in ("create", "delete"))
_ALL = [{"name": "*"}]
_MINUTES = 4
"""That a run takes on an idle cluster; 15 at most, as each step has its limit."""


class SelfTestOptions(NamedTuple):
    """What a run is to do.

    Attributes:
        image: of a Deployment; "" for processes on this machine.
        pull_policy: of that image.
        program: a Go scheduler's binary to run instead of our own process.
        pod_image: of the pods that are placed; it is never pulled.
        tolerated: keys of taints that these pods tolerate.
        audit_logs: of the API servers, which go on writing them.
    """

    image: str
    pull_policy: str
    program: Path | None
    pod_image: str
    tolerated: Sequence[str]
    audit_logs: Sequence[AuditLog] = ()


class PreparedRun:
    """A run about which everything is known, and of which nothing is made yet.

    Attributes:
        leftovers: what earlier runs left in the cluster.
    """

    def __init__(self, config: ClientConfig, options: SelfTestOptions) -> None:
        """Read the cluster.

        Raises:
            KubeError: it does not answer, or does not let us list nodes and pods.
        """
        self._config, self._options = config, options
        self._names = Names(secrets.token_hex(3))
        self._cluster = OwnCluster(config, self._names)
        self._version = str(read_object(self._cluster.connection.get("/version"), "/version").get("gitVersion", ""))
        self._before = _read(config)
        self._usable = find_usable(self._before, options.tolerated)
        self._has_gangs = self._cluster.serves(*_GROUPS) and not self._cluster.missing(_GANG_RIGHTS)
        self._made = scaffold(self._names, self._cluster_roles())
        missing = self._cluster.missing(list(self._rights()))
        self._may_preempt = all(right.resource != "priorityclasses" for right in missing)
        self._unable = self._obstacle(missing)
        self.leftovers = [] if self._unable else self._cluster.leftovers()

    def _rights(self) -> Iterator[Right]:
        yield from needed_rights(self._made)
        if self._options.image:
            yield from (Right("create", "", "configmaps"), Right("create", "apps", "deployments"))

    def _obstacle(self, missing: Sequence[Right]) -> str:
        """Why no scheduler can be started; "" where one can."""
        needed = [str(right) for right in missing if right.resource != "priorityclasses"]
        if needed:
            return f"this user may not {', '.join(needed)}"
        return "" if self._usable else f"there is no node {WITH_ROOM}"

    def _cluster_roles(self) -> list[str]:
        """What an installation binds such a scheduler to."""
        image = self._options.image
        flavour = flavour_of(image) if image else CUSTOM if self._options.program else OURS
        configuration = load_configuration(self._configuration("http://127.0.0.1"), source="selftest")
        return cluster_roles_for([(profile.enabled, flavour) for profile in configuration.profiles])

    def announcement(self) -> Iterator[str]:
        """Yield what the run will do and make, for whoever has to agree."""
        nodes = len(self._usable)
        yield f"cluster: {self._config.server}, Kubernetes {self._version}; nodes with room for the steps: {nodes}"
        yield f"time: about {_MINUTES} minutes, 15 at most"
        for leftover in self.leftovers:
            yield f"removes what an earlier run left: {leftover}"
        if self._unable:
            yield f"makes nothing, as {self._unable}"
            return
        for item in self._shown():
            namespace = item["metadata"].get("namespace")
            yield f"makes and removes {item['kind']} {f'{namespace}/' if namespace else ''}{item['metadata']['name']}"
        yield f"makes and removes pods and PodGroups in namespace {self._names.namespace}"
        if self._options.image:
            yield f"runs image {self._options.image} in a Deployment of two replicas there"
        else:
            program = self._options.program or "the scheduler of this program"
            yield f"runs {program} twice on this machine, as that ServiceAccount"
        yield "grants that ServiceAccount what an installation grants a scheduler: to read nodes and pods, and to bind"

    def _shown(self) -> list[KubeObject]:
        return [item for item in self._made if item["kind"] != "PriorityClass" or self._may_preempt]

    def run(self, say: Callable[[str], None]) -> SelfTestReport:
        """Make everything, run the steps, and remove everything, whatever happens meanwhile.

        Raises:
            KubeError: the cluster does not let us make or remove something.
        """
        begun, started = time.time(), time.monotonic()
        stale = self._cluster.remove(self.leftovers, say)
        source = None if self._options.image else LoadSource()
        configuration = self._configuration(source.address if source is not None else "")
        instances = instances_of(
            self._cluster, configuration, self._options.image, self._options.pull_policy, self._options.program
        )
        bench = Bench(
            cluster=self._cluster,
            instances=instances,
            before=self._before,
            pod_image=self._options.pod_image,
            tolerated=self._options.tolerated,
            has_gangs=self._has_gangs,
            may_preempt=self._may_preempt,
            source=source,
            unable=self._unable,
            usable=self._usable,
            held=held_rights(self._made),
            audit_logs=self._options.audit_logs,
        )
        left: list[str] = []
        try:
            if not self._unable:
                for item in self._shown():
                    self._cluster.create(item)
            steps = tuple(results(bench, STEPS, say))
        finally:
            instances.stop()
            if source is not None:
                source.close()
            # An interrupted request leaves the connection amid an exchange: what follows gets one of its own.
            self._cluster.close()
            if not self._unable:
                left = self._remove_own(say)
            self._cluster.close()
        return SelfTestReport(
            run=self._names.run,
            server=self._config.server,
            kubernetes=self._version,
            nodes=self._before.assembly.attempts.snapshot().node_count,
            version=__version__,
            instances=instances.description,
            begun=format_seconds(begun),
            seconds=round(time.monotonic() - started, 1),
            steps=steps,
            left=(*stale, *left),
        )

    def _configuration(self, watcher: str) -> dict[str, Any]:
        """The configuration under test: a profile with the default plugins and, with a load-watcher's address, one that
        scores by load alone."""
        coscheduling = {"enabled": [{"name": "Coscheduling"}]}
        gangs = {"multiPoint": coscheduling, "queueSort": {**coscheduling, "disabled": _ALL}}
        plugins: dict[str, Any] = gangs if self._has_gangs else {}
        profiles: list[dict[str, Any]] = [{"schedulerName": self._names.scheduler, "plugins": plugins}]
        if watcher:
            score = {"enabled": [{"name": "TargetLoadPacking"}], "disabled": _ALL}
            profiles.append(
                {
                    "schedulerName": self._names.by_load,
                    "plugins": {**plugins, "score": score},
                    "pluginConfig": [{"name": "TargetLoadPacking", "args": {"watcherAddress": watcher}}],
                }
            )
        return {
            "apiVersion": _API_VERSION,
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {
                "leaderElect": True,
                "resourceLock": "leases",
                "resourceName": LEASE,
                "resourceNamespace": self._names.namespace,
            },
            "profiles": profiles,
        }

    def _remove_own(self, say: Callable[[str], None]) -> list[str]:
        """Remove what this run made, also what a request made that nobody waited for; returns what is left, and why."""
        left: list[str] = []
        for _ in range(2):
            own = [entry for entry in self._cluster.leftovers() if self._names.run in entry.name]
            if not own:
                break
            left = self._cluster.remove(own, say)
        for line in left:
            say(f"not removed: {line}")
        return left


def _read(config: ClientConfig) -> ReadyCluster:
    """The cluster as the default profile sees it, under the name of the cluster's own scheduler."""
    report = InputReport(lambda line: None)
    objects = RecordedObjects(report)
    objects.add_documents(config.server, read_snapshot(config, report.warn))
    content = {
        "apiVersion": _API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": DEFAULT_SCHEDULER_NAME}],
    }
    configuration = load_configuration(content, source="selftest", allow_default_scheduler_name=True)
    return set_up(
        configuration,
        PodSelection((DEFAULT_SCHEDULER_NAME,)),
        objects,
        Conditions(seed=0, now=time.time()),
        report,
        about_pending=False,
    )


def agree(prepared: PreparedRun, *, yes: bool) -> None:
    """Say what the run will do, and ask unless it is agreed to already.

    Raises:
        CommandError: nobody agrees.
    """
    for line in prepared.announcement():
        typer.echo(printable(line), err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("nobody is here to agree: read the lines above, then add --yes", ExitCode.USAGE)
    if not typer.confirm("Go on?", err=True):
        raise CommandError("nothing was done")


def write_reports(report: SelfTestReport, files: Sequence[Path]) -> None:
    """Write the report into files, in the form that their ending names: .html, .md or .json."""
    forms = {
        ".html": lambda: page(report),
        ".md": lambda: "\n".join(markdown(report)) + "\n",
        ".json": lambda: document_text(report, FullOutputFormat.JSON),
    }
    for file in files:
        file.write_text(forms[file.suffix.lower()](), encoding="utf-8")
