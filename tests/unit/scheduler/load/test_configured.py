"""The sources of a configuration: shared by plugins and profiles, with the settings that the args and options give."""

from __future__ import annotations

import pytest

from scheduler.catalog import LoadOptions, TargetLoadPackingArgs
from scheduler.load import load_settings, window_seconds


@pytest.mark.parametrize(("window", "seconds"), [("15m", 900), ("1h30m", 5400), ("500ms", 0.5)])
def test_windows_are_promql_durations(window: str, seconds: float) -> None:
    assert window_seconds(window) == seconds


def test_tls_is_verified_unless_the_configuration_says_otherwise() -> None:
    provider = {"type": "Prometheus", "address": "https://p:9090"}
    verified = TargetLoadPackingArgs.model_validate({"metricProvider": provider})
    assert load_settings(verified, LoadOptions()).verify_tls
    skipped = TargetLoadPackingArgs.model_validate({"metricProvider": {**provider, "insecureSkipVerify": True}})
    assert not load_settings(skipped, LoadOptions()).verify_tls
