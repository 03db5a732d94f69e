"""One page model for all visitors: taken when somebody asks and none is fresh, and at most once a minute. It is of the
cluster with the page's own rights, the load from the source of the scheduler's configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from scheduler.catalog import CredentialRules
from scheduler.config import Configuration, load_configuration
from scheduler.framework import LoadReading
from scheduler.kube.client import ClientConfig
from scheduler.load import LoadError, configured_sources, load_source
from secondary_scheduler.clustersnapshot.reading import RESOURCES, SnapshotObject, read_snapshot
from secondary_scheduler.errors import printable
from secondary_scheduler.files import read_text
from secondary_scheduler.simulation.cluster import PodSelection, build_cluster
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.simulation.settingup import Conditions
from secondary_scheduler.views.pagemodels import PageModel, decided_page_model
from secondary_scheduler.views.runs import Limits

LIMITS = Limits(explained=20.0, total=40.0)
"""Shorter than the command's: visitors wait for it."""
_SOURCE = "the cluster"


def page_model_of(
    documents: Iterable[SnapshotObject],
    configured: Callable[[int | None], Configuration],
    *,
    measured: LoadReading | None,
    now: float,
    remarks: Iterable[str] = (),
    limits: Limits = LIMITS,
) -> PageModel:
    """Decide on what a cluster holds.

    Args:
        documents: the cluster's objects.
        configured: returns the scheduler's configuration on a cluster of a minor version.
        measured: the nodes' load; None where there is none.
        now: time of the decisions, seconds since the epoch.
        remarks: what is missing, for readers.
        limits: how long deciding may take.

    Raises:
        CommandError: a plugin refuses its args.
    """
    # Each line names an object; how many there are is enough, as readers differ in what they may read.
    lines: list[str] = []
    report = InputReport(lines.append)
    objects = RecordedObjects(report)
    objects.add_documents(_SOURCE, documents)
    cluster = build_cluster(objects, report, PodSelection(configured(None).scheduler_names))
    configuration = configured(cluster.minor)
    conditions = Conditions(seed=0, now=now, measured=measured)
    page_model, about = decided_page_model(_SOURCE, cluster, configuration, conditions, limits=limits)
    lines = [*remarks, *about]
    if report.invalid:
        lines.append(f"objects that cannot be used, and are left out: {report.invalid}")
    return replace(page_model, remarks=tuple(lines))


NOT_READ = frozenset({"Deployment", "PodMetrics"})
"""Of a snapshot, what no decision depends on: the page has no right to read it."""
PAGE_RESOURCES = tuple(resource for resource in RESOURCES if resource.kind not in NOT_READ)


@dataclass(frozen=True, slots=True)
class Taker:
    """Takes page models.

    Attributes:
        api: the cluster.
        config: file with the scheduler's configuration; it is mounted, and read each time.
        rules: what may be done with credentials of the load's source.
        say: gets what goes wrong, for the log.
    """

    api: ClientConfig
    config: Path
    rules: CredentialRules
    say: Callable[[str], None]

    def configured(self, minor: int | None = None) -> Configuration:
        """Return the configuration on a cluster of a minor version.

        Raises:
            InputError, ConfigurationError: it cannot be read, or is not valid.
        """
        return load_configuration(
            read_text(self.config, option="--config"),
            source=str(self.config),
            allow_token_in_config_map=True,  # as for the scheduler: the preview has judged it
            allow_default_scheduler_name=True,
            credential_rules=self.rules,
            cluster_minor=minor,
        )

    def take(self) -> PageModel:
        """Return a page model of the cluster as it is.

        Raises:
            KubeError, CommandError, ConfigurationError: there is none.
        """
        remarks: list[str] = []
        documents = read_snapshot(self.api, remarks.append, PAGE_RESOURCES)
        measured = self._load(remarks, sum(document.kind == "Node" for document in documents))
        return page_model_of(documents, self.configured, measured=measured, now=time.time(), remarks=remarks)

    def _load(self, remarks: list[str], nodes: int) -> LoadReading | None:
        sources, _ = configured_sources(self.configured().profiles, self.rules)
        if not sources:
            return None
        key, settings = next(iter(sources.items()))
        if len(sources) > 1:
            remarks.append(f"the configuration names {len(sources)} load sources; the load is that of the first")
        try:
            source = load_source(key, settings, self.api, object_count=lambda: nodes)
            try:
                reading = source.read()
            finally:
                source.close()
        except LoadError as error:
            # The reason may hold addresses: it goes to the log.
            self.say(f"load source: {printable(str(error))}")
            remarks.append("the nodes' load is missing: its source does not answer with loads")
            return None
        if reading.rejected:
            self.say(f"values that cannot be a load are left out: {printable(reading.left_out)}")
            remarks.append(f"values that cannot be a load are left out: {sum(reading.rejected.values())}")
        return reading


FRESH_SECONDS: Final = 60.0
_OLDEST_SECONDS: Final = 600.0
"""After so long, no page is better than one with the former page model."""


class NoPageModel(Exception):
    """There is none, or only one that is too old; the log says why."""


class SharedPageModel:
    """The newest page model. `take` runs in a thread, never twice at a time."""

    def __init__(
        self,
        take: Callable[[], PageModel],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Configure; nothing is taken yet.

        Args:
            take: returns a page model, or raises.
            say: gets a line where it raises.
            clock: monotonic.
        """
        self._take, self._say, self._clock = take, say, clock
        self._page_model: PageModel | None = None
        self._taken_at = self._tried_at = -float("inf")
        self._taking: asyncio.Task[None] | None = None
        self._drops = 0

    def drop(self) -> None:
        """Show nothing any more that was read until now. Called on the event loop."""
        self._drops += 1
        self._page_model = None
        self._tried_at = -float("inf")

    async def current(self) -> PageModel:
        """Return the page model.

        Raises:
            NoPageModel: none can be had.
        """
        if self._taking is None and self._clock() - self._tried_at >= FRESH_SECONDS:
            self._taking = asyncio.create_task(self._renew(), name="page_model")
        if self._taking is not None:
            # A visitor who goes away does not take the others' page model along.
            await asyncio.shield(self._taking)
        if self._page_model is None or self._clock() - self._taken_at > _OLDEST_SECONDS:
            self._page_model = None
            raise NoPageModel
        return self._page_model

    async def _renew(self) -> None:
        drops = -1
        try:
            while drops != self._drops:
                drops = self._drops
                page_model = await _in_thread(self._take)
            self._page_model, self._taken_at = page_model, self._clock()
        except Exception as error:
            self._say(f"no new snapshot: {error}")
        finally:
            if drops == self._drops:
                # From its end: where taking one is slow, it is not all that is done.
                self._tried_at = self._clock()
            self._taking = None


async def _in_thread(work: Callable[[], PageModel]) -> PageModel:
    """Run it in a thread that the process does not wait for at its end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[PageModel] = loop.create_future()

    def settle(page_model: PageModel | None, error: Exception | None) -> None:
        if done.done():
            return
        if page_model is not None:
            done.set_result(page_model)
        else:
            done.set_exception(error or NoPageModel())

    def run() -> None:
        page_model: PageModel | None = None
        problem: Exception | None = None
        try:
            page_model = work()
        except Exception as error:
            problem = error
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, page_model, problem)

    threading.Thread(target=run, name="page_model", daemon=True).start()
    return await done
