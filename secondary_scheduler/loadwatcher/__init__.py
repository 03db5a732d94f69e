"""The load-watcher: the nodes' load for other people's schedulers, in load-watcher's format.

The image has it as the command `load-watcher`, and the command line serves the same. Belongs here: what both need, from
the source that a configuration names to the HTTP server. Imports `scheduler` only, so that the image needs nothing of
the command line.

The server is imported when it is used: its HTTP libraries take longer to import than the rest of the command line.
"""

from typing import TYPE_CHECKING

from scheduler.lazy import lazy_attributes
from secondary_scheduler.loadwatcher.errors import WatcherError
from secondary_scheduler.loadwatcher.listening import DEFAULT_LISTEN, Listen, is_loopback, listen_address

if TYPE_CHECKING:
    from secondary_scheduler.loadwatcher.serving import Access, NodeNamedSource, WatcherService
    from secondary_scheduler.loadwatcher.source import source_of

if not TYPE_CHECKING:
    __getattr__ = lazy_attributes(
        __name__,
        {"Access": "serving", "NodeNamedSource": "serving", "WatcherService": "serving", "source_of": "source"},
    )

__all__ = [
    "DEFAULT_LISTEN",
    "Access",
    "Listen",
    "NodeNamedSource",
    "WatcherError",
    "WatcherService",
    "is_loopback",
    "listen_address",
    "source_of",
]
