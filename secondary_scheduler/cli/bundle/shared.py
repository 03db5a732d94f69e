"""What this command takes from others, in one place."""

from __future__ import annotations

from secondary_scheduler.cli.clustersnapshot.taking import take_snapshot
from secondary_scheduler.cli.explain.forwarding import Answer, get
from secondary_scheduler.cli.explain.leaders import leading_pods

__all__ = ["Answer", "get", "leading_pods", "take_snapshot"]
