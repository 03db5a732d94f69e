"""TargetLoadPacking of scheduler-plugins 0.34.7."""

from scheduler.plugins.targetloadpacking.plugin import TargetLoadPacking

__all__ = ["TargetLoadPacking"]
