"""How a snapshot file carries the load of its nodes: `snapshot` writes it, `simulate` reads it."""

LOAD_API_VERSION = "secondary-scheduler.io/v1"
LOAD_KIND = "NodeLoad"
"""Kind of the document that holds what load-watcher serves at `/watcher`."""
