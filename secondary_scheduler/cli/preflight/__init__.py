"""The command `preflight`: checks the metric source before anything is installed."""

from secondary_scheduler.cli.preflight.command import register as register
