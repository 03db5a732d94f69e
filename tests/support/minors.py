"""Other minor releases of Kubernetes, which tests use where they have been built."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.toolchain import binaries


def built_or_skip(minor: str, *names: str) -> dict[str, Path]:
    """Return the paths of a minor's components; skip the test where one has not been built, which takes minutes."""
    paths = {name: binaries.find(binaries.row(name, minor)) for name in names}
    if missing := [name for name, path in paths.items() if path is None]:
        pytest.skip(f"{', '.join(missing)} of {minor} not built: python -m devcluster.toolchain {minor}")
    return {name: path for name, path in paths.items() if path is not None}
