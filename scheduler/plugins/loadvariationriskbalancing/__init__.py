"""LoadVariationRiskBalancing of scheduler-plugins 0.34.7."""

from scheduler.plugins.loadvariationriskbalancing.plugin import LoadVariationRiskBalancing

__all__ = ["LoadVariationRiskBalancing"]
