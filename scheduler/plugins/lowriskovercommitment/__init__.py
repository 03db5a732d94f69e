"""LowRiskOverCommitment of scheduler-plugins 0.34.7."""

from scheduler.plugins.lowriskovercommitment.plugin import LowRiskOverCommitment

__all__ = ["LowRiskOverCommitment"]
