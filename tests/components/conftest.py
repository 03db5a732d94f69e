from __future__ import annotations

from pathlib import Path

import pytest

CANARY_TOKEN = "canary-token-31415926"


@pytest.fixture
def local_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The environment that stack `local` refers to, as `secondary-scheduler cluster env` sets it."""
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text(CANARY_TOKEN + "\n")
    authority.write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    monkeypatch.setenv("SECONDARY_SCHEDULER_PROMETHEUS_URL", "https://127.0.0.1:9090")
    monkeypatch.setenv("SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE", str(token))
    monkeypatch.setenv("SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE", str(authority))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    return tmp_path
