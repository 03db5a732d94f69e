"""What may be moved, as its user writes it. The model is the configuration's, as a stack's preview checks it, too."""

from scheduler.config import (
    REBALANCED_RESOURCES as RESOURCES,
    RebalanceSettings,
    RebalanceSettingsError as SettingsError,
    read_rebalance_settings as read_settings,
)

__all__ = ["RESOURCES", "RebalanceSettings", "SettingsError", "read_settings"]
