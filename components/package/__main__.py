"""Serves the components to programs in every language that Pulumi has."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the repository that this folder is part of

from pulumi.provider.experimental import component_provider_host

from components import packaged

if __name__ == "__main__":
    # Without a version: a git source gets that of its tag.
    component_provider_host([packaged.SchedulerInstallation], packaged.NAME)
