"""The pages of `ui` on a fake cluster: what its scheduler remembers is what was decided on a snapshot."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from scheduler.connectionlimits import ConnectionLimits
from scheduler.observe import bind, in_words, port_of, serving
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.ui.app import Site, application
from secondary_scheduler.cli.ui.live import LiveCluster, RunningPod, running_pod
from secondary_scheduler.cli.ui.reading import SceneRequest, read_scene
from secondary_scheduler.cli.ui.recordingscene import read_recording_scenes
from secondary_scheduler.views.scenes import Scene

_SECONDS = 60


@dataclass(frozen=True, slots=True)
class FakeCluster(LiveCluster):
    """A fake: answers from a scene."""

    scene: Scene

    def ask(self, namespace: str, name: str) -> RunningPod:
        for decision in self.scene.run.decisions:
            if decision.key.rpartition("/")[2] == name:
                attempt = {
                    "time": "2026-09-21T14:13:20Z",
                    "result": "scheduled" if decision.node else "unschedulable",
                    "schedulerName": decision.scheduler_name,
                    "attempt": 1,
                    "node": decision.node,
                    "message": decision.message or None,
                    "evaluatedNodes": decision.evaluated,
                    "feasibleNodes": decision.feasible,
                    "loadAgeSeconds": dict(decision.load_ages or {}),
                    "details": msgspec.to_builtins(decision.detail),
                }
                return running_pod({"items": [attempt], "waiting": None})
        raise CommandError(f"{namespace}/{name}: unknown to scheduler-1")


def running_site(files: Mapping[str, Path]) -> Site:
    """A site of the files of `write_scene`, with a fake cluster behind it."""
    scene = read_scene(SceneRequest([str(files["snapshot"])], files["config"], files["old"]), lambda line: None)
    return Site(scene, live=FakeCluster(None, None, None, None, None, 10259, scene))


def recorded_site(files: Mapping[str, Path]) -> Site:
    """A site of the files of `write_recorded_scene`."""
    request = SceneRequest([], files["config"], files["old"], recording=str(files["recording"]))
    scenes = read_recording_scenes(request, lambda line: None)
    return Site(scenes.at(scenes.last), scenes=scenes)


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
