"""One scene for all visitors: taken when somebody asks and none is fresh, and at most once a minute."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from secondary_scheduler.views.scenes import Scene

FRESH_SECONDS: Final = 60.0
_OLDEST_SECONDS: Final = 600.0
"""After so long, no page is better than one with the former scene."""


class NoScene(Exception):
    """There is none, or only one that is too old; the log says why."""


class SharedScene:
    """The newest scene. `take` runs in a thread, never twice at a time."""

    def __init__(
        self,
        take: Callable[[], Scene],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Configure; nothing is taken yet.

        Args:
            take: returns a scene, or raises.
            say: gets a line where it raises.
            clock: monotonic.
        """
        self._take, self._say, self._clock = take, say, clock
        self._scene: Scene | None = None
        self._taken_at = self._tried_at = -float("inf")
        self._taking: asyncio.Task[None] | None = None
        self._drops = 0

    def drop(self) -> None:
        """Show nothing any more that was read until now. Called on the event loop."""
        self._drops += 1
        self._scene = None
        self._tried_at = -float("inf")

    async def current(self) -> Scene:
        """Return the scene.

        Raises:
            NoScene: none can be had.
        """
        if self._taking is None and self._clock() - self._tried_at >= FRESH_SECONDS:
            self._taking = asyncio.create_task(self._renew(), name="scene")
        if self._taking is not None:
            # A visitor who goes away does not take the others' scene along.
            await asyncio.shield(self._taking)
        if self._scene is None or self._clock() - self._taken_at > _OLDEST_SECONDS:
            self._scene = None
            raise NoScene
        return self._scene

    async def _renew(self) -> None:
        drops = -1
        try:
            while drops != self._drops:
                drops = self._drops
                scene = await _in_thread(self._take)
            self._scene, self._taken_at = scene, self._clock()
        except Exception as error:
            self._say(f"no new snapshot: {error}")
        finally:
            if drops == self._drops:
                # From its end: where taking one is slow, it is not all that is done.
                self._tried_at = self._clock()
            self._taking = None


async def _in_thread(work: Callable[[], Scene]) -> Scene:
    """Run it in a thread that the process does not wait for at its end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Scene] = loop.create_future()

    def settle(scene: Scene | None, error: Exception | None) -> None:
        if done.done():
            return
        if scene is not None:
            done.set_result(scene)
        else:
            done.set_exception(error or NoScene())

    def run() -> None:
        scene: Scene | None = None
        problem: Exception | None = None
        try:
            scene = work()
        except Exception as error:
            problem = error
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, scene, problem)

    threading.Thread(target=run, name="scene", daemon=True).start()
    return await done
