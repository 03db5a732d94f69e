"""The command `load-watcher`: the nodes' load for other clients, in the form that load-watcher serves."""

from secondary_scheduler.cli.loadwatcher.command import register

__all__ = ["register"]
