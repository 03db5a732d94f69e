"""A running cluster: snapshots of it on request, and what its scheduler says about a pod.

The credentials stay in this process: the browser gets pages, and no token of the cluster.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from secondary_scheduler.cli.schedulers import UnknownPodError, find_schedulers
from secondary_scheduler.cli.serviceaccounts import asking_as
from secondary_scheduler.cli.snapshotfile import cluster_to_read, take_snapshot
from secondary_scheduler.cli.ui.reading import SceneRequest, read_scene
from secondary_scheduler.clustersnapshot.origin import LoadOrigin
from secondary_scheduler.clusterstatus.document import read_status
from secondary_scheduler.clusterstatus.unknownpods import refuse_unknown
from secondary_scheduler.views.runningpod import RunningPod, running_pod
from secondary_scheduler.views.runs import Limits
from secondary_scheduler.views.scenes import DEFAULT_LIMITS, Scene


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """How to reach a cluster and its scheduler.

    Attributes:
        kubeconfig, context: as for kubectl. A login program runs again for each snapshot and each question.
        origin: of the nodes' load; None: without it.
        scheduler_namespace: where the scheduler runs; None: in the operator's namespace.
        scheduler_pod: the one to ask; None: those that lead.
        scheduler_port: its secure port.
        account: the ServiceAccount as which it is asked; each question takes a new token for it. None: as the
            kubeconfig's user.
    """

    kubeconfig: Path | None
    context: str | None
    origin: LoadOrigin | None
    scheduler_namespace: str | None
    scheduler_pod: str | None
    scheduler_port: int
    account: str | None

    def read(self, request: SceneRequest, say: Callable[[str], None], limits: Limits = DEFAULT_LIMITS) -> Scene:
        """Take a snapshot and decide on it; the file that it is written to exists no longer than that takes.

        Raises:
            CommandError: the cluster or the source of the load does not answer, or a file cannot be used.
            typer.Exit: a configuration is not valid; its mistakes are on stderr.
        """
        with tempfile.TemporaryDirectory(prefix="secondary-scheduler-ui-") as directory:
            file = Path(directory) / "cluster.json"
            with cluster_to_read(self.kubeconfig, self.context) as config:
                take_snapshot(config, None, file, as_yaml=False, say=say)
                live = replace(request, files=[str(file)], now=time.time())
                return read_scene(live, say, limits, title=self.context or config.server, origin=self.origin)

    def status(self) -> dict[str, Any]:
        """Return how the schedulers are: the document of `status`, of the scheduler's namespace where one is named.

        Raises:
            CommandError: the API server does not answer.
        """
        with cluster_to_read(self.kubeconfig, self.context) as config:
            asker = asking_as(config, self.account)
            return read_status(config, self.scheduler_namespace, everywhere=False, asker=asker, command="ui")

    def ask(self, namespace: str, name: str) -> RunningPod:
        """Ask the running scheduler about a pod.

        Raises:
            CommandError: it does not know the pod, which then says why itself; it does not answer, or answers something
                else.
        """
        schedulers = find_schedulers(
            self.kubeconfig,
            self.context,
            self.scheduler_namespace,
            self.scheduler_pod,
            self.scheduler_port,
            command="ui",
            account=self.account,
        )
        try:
            return running_pod(schedulers.about_pod(namespace, name))
        except UnknownPodError as unknown:
            refuse_unknown(schedulers.config, "ui", namespace, name, unknown.schedulers)
