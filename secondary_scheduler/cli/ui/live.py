"""A running cluster: snapshots of it on request, and what its scheduler says about a pod.

The credentials stay in this process: the browser gets pages, and no token of the cluster.

The moment of a recording that a page shows: part of the URL, so that every link keeps it.

`/TOKEN/at/12/nodes` are the nodes at the 13th moment; without `/at/12` a page is about the last one. The form that
chooses another moment adds `at=N` to the query of the page; the answer leads to the address with that moment.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from secondary_scheduler.cli.connecting import asking_as
from secondary_scheduler.cli.schedulers import UnknownPodError, find_schedulers
from secondary_scheduler.cli.snapshotfile import cluster_to_read, take_snapshot
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.cli.ui.reading import RecordingPageModels, read_page_model
from secondary_scheduler.clustersnapshot.measuring import LoadOrigin
from secondary_scheduler.clusterstatus.document import read_status
from secondary_scheduler.clusterstatus.status import StatusReport
from secondary_scheduler.clusterstatus.unknownpods import refuse_unknown
from secondary_scheduler.views.asking import BadQuery
from secondary_scheduler.views.pagemodels import DEFAULT_LIMITS, PageModel
from secondary_scheduler.views.pods import PodAnswer, running_pod
from secondary_scheduler.views.runs import Limits


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

    def read(self, request: SnapshotRequest, say: Callable[[str], None], limits: Limits = DEFAULT_LIMITS) -> PageModel:
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
                return read_page_model(live, say, limits, title=self.context or config.server, origin=self.origin)

    def status(self) -> StatusReport:
        """Return how the schedulers are: the document of `status`, of the scheduler's namespace where one is named.

        Raises:
            CommandError: the API server does not answer.
        """
        with cluster_to_read(self.kubeconfig, self.context) as config:
            asker = asking_as(config, self.account)
            return read_status(config, self.scheduler_namespace, everywhere=False, asker=asker, command="ui")

    def ask(self, namespace: str, name: str) -> PodAnswer:
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


PREFIX: Final = "/at/{moment}"
"""Of the routes."""
_PARAMETER: Final = "at"


@dataclass(frozen=True, slots=True)
class MomentChoice:
    """What the form shows.

    Attributes:
        action: path of the page that is shown.
        kept: the parameters of its query.
        index, last: the moment, from 0, and the last one.
        time, start, step: the moment, the first one, and how far one is from the next; seconds since the epoch.
    """

    action: str
    kept: tuple[tuple[str, str], ...]
    index: int
    last: int
    time: float
    start: float
    step: float


def moment_of(request: web.Request, page_models: RecordingPageModels) -> int:
    """Return the moment that a page is about.

    Raises:
        BadQuery: there is none of that number.
    """
    return _number(request.match_info.get("moment", str(page_models.last)), page_models.last)


def moved(request: web.Request, page_models: RecordingPageModels, root: str) -> str | None:
    """Return where the form leads that chooses another moment; None where the request does not come from it.

    Raises:
        BadQuery: there is no such moment.
    """
    if _PARAMETER not in request.query:
        return None
    index = _number(request.query[_PARAMETER], page_models.last)
    query = urlencode([(name, value) for name, value in request.query.items() if name != _PARAMETER])
    return f"{root}/at/{index}{_page(request, root)}{'?' if query else ''}{query}"


def choice_of(request: web.Request, page_models: RecordingPageModels, index: int, root: str) -> MomentChoice:
    """Return what the form shows on a page."""
    frames = page_models.course.frames
    step = frames[1].time - frames[0].time if len(frames) > 1 else 0.0
    # What is sent with POST has no address of its own to come back to, but the page of its form has.
    query = tuple(request.query.items()) if request.method == "GET" else ()
    action = f"{root}/at/{index}{_page(request, root)}"
    return MomentChoice(action, query, index, page_models.last, frames[index].time, frames[0].time, step)


def _page(request: web.Request, root: str) -> str:
    """The path of a page without token and moment, still quoted."""
    path = request.rel_url.raw_path.removeprefix(root)
    moment = request.match_info.get("moment")
    return path if moment is None else path.removeprefix(f"/at/{moment}")


def _number(text: str, last: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 5 and int(text) <= last):
        raise BadQuery(f"{_PARAMETER}: a moment of the recording, a number from 0 to {last}")
    return int(text)
