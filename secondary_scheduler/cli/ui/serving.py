"""Reading the page model and serving its pages until somebody interrupts."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

import typer

from scheduler.connectionlimits import ConnectionLimits
from scheduler.observe import bind, in_words, port_of, serving
from secondary_scheduler.cli.errors import CommandError, Interrupted, printable
from secondary_scheduler.cli.output import say
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.cli.ui.app import ADDRESS, Site, application
from secondary_scheduler.cli.ui.live import LiveCluster
from secondary_scheduler.cli.ui.reading import read_page_model, read_recording_page_models

_SHUTDOWN_SECONDS = 3.0
"""For answers that are under way."""
_LIMITS: Final = ConnectionLimits(per_address=None)
"""Everybody on this machine has one address."""


def serve_snapshot(request: SnapshotRequest, port: int) -> None:
    """Read a snapshot, and serve its pages.

    Raises:
        CommandError: a file cannot be used, or the port is taken.
        Interrupted: a signal has ended it.
    """
    _serve_site(Site(read_page_model(request, say)), port)


def serve_recording(request: SnapshotRequest, port: int) -> None:
    """Read a recording, replay it, and serve its pages.

    Raises:
        CommandError: a file cannot be used, or the port is taken.
        Interrupted: a signal has ended it.
    """
    page_models = read_recording_page_models(request, say)
    course = page_models.course
    say(f"{len(course.frames)} moments, {len(course.histories):,} pods decided, replayed in {course.seconds:.1f} s")
    _serve_until_stopped(Site(page_models.at(page_models.last), page_models=page_models), port)


def serve_cluster(cluster: LiveCluster, request: SnapshotRequest, port: int) -> None:
    """Take a snapshot of a cluster, and serve its pages, on which others can be taken.

    Raises:
        CommandError: the cluster does not answer, a file cannot be used, or the port is taken.
        Interrupted: a signal has ended it.
    """
    _serve_site(Site(cluster.read(request, say), request, cluster), port)


def _serve_site(site: Site, port: int) -> None:
    run = site.page_model.run
    say(f"{len(run.before):,} nodes, {len(run.decisions):,} decisions in {run.seconds:.1f} s")
    _serve_until_stopped(site, port)


def _serve_until_stopped(site: Site, port: int) -> None:
    asyncio.run(_serve(site, port))
    raise Interrupted("stopped")


async def _serve(site: Site, port: int) -> None:
    """Serve until a signal comes."""
    stopped = asyncio.Event()
    # Not the handler of `app`, which raises: raised within a callback, the loop would take it for the callback's error.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        listeners = bind(ADDRESS, port)
    except OSError as error:
        raise CommandError(f"--port {port}: {printable(error.strerror or str(error))}") from error
    async with serving(
        application(site),
        listeners,
        limits=_LIMITS,
        report=in_words(say),
        shutdown_seconds=_SHUTDOWN_SECONDS,
    ):
        # On stdout, so that it can be piped into a browser; stderr may be kept in a log.
        typer.echo(f"http://{ADDRESS}:{port_of(listeners)}{site.first}")
        say("the address holds a token; who has it sees the pages. Ctrl-C ends")
        await stopped.wait()
