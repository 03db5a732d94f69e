"""What may be moved, as its user writes it. The model is the configuration's, as a stack's preview checks it, too."""

from scheduler.config import (
    REBALANCED_RESOURCES as RESOURCES,
)
from scheduler.config import (
    RebalanceSettings,
)
from scheduler.config import (
    RebalanceSettingsError as SettingsError,
)
from scheduler.config import (
    read_rebalance_settings as read_settings,
)

__all__ = ["RESOURCES", "RebalanceSettings", "SettingsError", "read_settings"]
