"""Fixtures of all tests."""

import gc
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.support.cluster import cluster_state_root, control_plane, make_cluster
from tests.support.selection import FULL, tries
from tests.support.standstills import TOLERATED_SECONDS, Standstills

__all__ = ["cluster_state_root", "control_plane", "make_cluster"]

# How long an example takes says more about the machine's other work than about the code. `make test` tries the same
# examples each time: a change is not refused for what was there before it. `make test-all` looks for new ones.
settings.register_profile(
    "project",
    max_examples=tries(100),
    deadline=None,
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")


def pytest_collection_finish() -> None:
    """Thousands of collected tests live to the end of the run, and the collector would go through them again and again:
    a sixth of the unit tests' processor time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Skip a test in real time that failed while the machine stood still."""
    if item.get_closest_marker("real_time") is None:
        return (yield)
    with Standstills() as standstills:
        try:
            return (yield)
        except (Exception, pytest.fail.Exception):
            if standstills.longest < TOLERATED_SECONDS:
                raise
    pytest.skip(f"cannot be judged: the machine stood still for {standstills.longest:.2f} s")


@pytest.fixture(autouse=True)
def logging_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test that sets up logging in this process does so for itself: the stream it logs to is closed after it, and
    loggers that are kept from first use would go on writing there."""
    configure = structlog.configure

    def without_keeping(**options: Any) -> None:
        configure(**{**options, "cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", without_keeping)
    yield
    structlog.reset_defaults()


@pytest.fixture
def no_collection() -> Iterator[None]:
    """For input that is nested until Python's stack is full: a collection there would run finalizers of other tests'
    garbage, which fail for want of stack, and their failure would count as this test's."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
