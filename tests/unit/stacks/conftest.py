from __future__ import annotations

import json
from pathlib import Path

import pytest

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "one",
    "clusters": [{"name": "one", "cluster": {"server": "https://api.one.example:6443"}}],
    "users": [{"name": "one", "user": {}}],
    "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig whose only context is `one`."""
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(KUBECONFIG))
    return file
