"""Where a configuration places a pod."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """Where one configuration places a pod, or why nowhere."""

    scheduler_name: str
    node: str | None
    message: str | None = None
