"""Peaks of scheduler-plugins 0.34.7."""

from scheduler.plugins.peaks.plugin import Peaks

__all__ = ["Peaks"]
