"""The pages of `ui` on a fake cluster: what its scheduler remembers is what was decided on a snapshot."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.answers import DecisionList
from scheduler.connectionlimits import ConnectionLimits
from scheduler.observe import bind, in_words, port_of, serving
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.cli.ui.app import Site, application
from secondary_scheduler.cli.ui.live import LiveCluster
from secondary_scheduler.cli.ui.reading import read_page_model, read_recording_page_models
from secondary_scheduler.clusterstatus.asking import LiveState, summarize_decisions, summarize_metrics
from secondary_scheduler.clusterstatus.document import status_document
from secondary_scheduler.clusterstatus.installations import CallerLimits, instances_of, read_installations
from secondary_scheduler.clusterstatus.status import StatusReport
from secondary_scheduler.views.pagemodels import DEFAULT_LIMITS, PageModel
from secondary_scheduler.views.pods import PodAnswer, running_pod
from secondary_scheduler.views.runs import Limits
from tests.support.answers import read_decision
from tests.unit.cli.fakeapi import FakeConnection
from tests.unit.cli.status import installation as made

_SECONDS = 60


@dataclass(frozen=True, slots=True)
class FakeCluster(LiveCluster):
    """A fake: answers from a page model."""

    page_model: PageModel
    answers: list[StatusReport | CommandError]
    """What `status` says of it, or why it says nothing: the last one counts."""

    def read(self, request: SnapshotRequest, say: Callable[[str], None], limits: Limits = DEFAULT_LIMITS) -> PageModel:
        return self.page_model

    def status(self) -> StatusReport:
        latest = self.answers[-1]
        if isinstance(latest, CommandError):
            raise latest
        return latest

    def ask(self, namespace: str, name: str) -> PodAnswer:
        for decision in self.page_model.run.decisions:
            if decision.pod.rpartition("/")[2] == name:
                attempt = read_decision(
                    time="2026-09-21T14:13:20Z",
                    result="scheduled" if decision.node else "unschedulable",
                    schedulerName=decision.scheduler_name,
                    node=decision.node,
                    message=decision.message or None,
                    evaluatedNodes=decision.evaluated_nodes,
                    feasibleNodes=decision.feasible_nodes,
                    loadAgeSeconds=dict(decision.load_age_seconds),
                    details=decision.details,
                )
                return running_pod(DecisionList(items=(attempt,)))
        raise CommandError(f"{namespace}/{name}: unknown to scheduler-1")


def status_of(page_model: PageModel, placed: int = 8, *, alive: bool = True, **answers: Any) -> StatusReport:
    """What `status` says of an installation that has placed some of a page model's pods.

    Args:
        page_model: whose pods they are.
        placed: how many.
        alive: whether the scheduler answers.
        answers: of the API server, in place of those of a healthy installation.
    """
    chosen = [decision for decision in page_model.run.decisions if decision.node][:placed]
    times = (f"2026-11-24T11:59:{59 - 4 * number:02d}Z" for number in range(len(chosen)))
    items = [
        read_decision(time=time, pod=decision.pod, node=decision.node)
        for decision, time in zip(reversed(chosen), times, strict=True)
    ]
    live = LiveState(summarize_metrics(made.METRICS), summarize_decisions(items, made.NOW))
    connection: Any = FakeConnection(made.installation(**answers))
    limits = CallerLimits()
    read = read_installations(connection, "https://api.example.com:6443", None, limits)
    instances = instances_of(read)
    answered = {each.place: live for each in instances if each.leader and alive}
    return status_document(read, instances, answered, limits, made.NOW)


def running_site(files: Mapping[str, Path]) -> Site:
    """A site of the files of `write_page_model`, with a fake cluster behind it."""
    request = SnapshotRequest([str(files["snapshot"])], files["config"], files["old"])
    page_model = read_page_model(request, lambda line: None)
    return Site(
        page_model,
        live=FakeCluster(None, None, None, None, None, 10259, None, page_model, [status_of(page_model)]),
        request=request,
    )


def recorded_site(files: Mapping[str, Path]) -> Site:
    """A site of the files of `write_recorded_page_model`."""
    request = SnapshotRequest([], files["config"], files["old"], recording=str(files["recording"]))
    page_models = read_recording_page_models(request, lambda line: None)
    return Site(page_models.at(page_models.last), page_models=page_models)


@contextlib.contextmanager
def served_site(site: Site) -> Iterator[str]:
    """Serve a site from a thread; yields the address of its pages, without `/nodes`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="pages")
    thread.start()
    stack = contextlib.AsyncExitStack()
    listeners, limits = bind("127.0.0.1", 0), ConnectionLimits(per_address=None)

    def run(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(_SECONDS)

    try:
        run(stack.enter_async_context(serving(application(site), listeners, limits=limits, report=in_words(print))))
        yield f"http://127.0.0.1:{port_of(listeners)}{site.root}"
    finally:
        run(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_SECONDS)
        loop.close()
