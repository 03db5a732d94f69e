"""The demo while the control plane is built; the rest of it runs in tests/e2e/test_main_job.py."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.demo import __main__ as demo
from devcluster.errors import BinaryError
from devcluster.progress import ProgressReporter


class FakeCluster:
    """Lacks a binary, and cannot be built."""

    def __init__(self, failure: BaseException) -> None:
        self._failure = failure

    def missing_binaries(self) -> list[str]:
        return ["etcd"]

    def build(self, report: ProgressReporter) -> None:
        raise self._failure

    def stop(self) -> None:
        pytest.fail("there is no cluster to stop")


@pytest.fixture(autouse=True)
def own_signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(demo.recorded, "show", lambda console, checkout: console.print("the recording"))
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "demo: interrupted; what is built stays, and `make demo` goes on from there"),
        (BinaryError("building etcd failed: the disk is full"), 1, "demo: building etcd failed: the disk is full"),
    ],
    ids=["interrupted", "failed"],
)
def test_a_build_that_ends_early_says_so_and_touches_no_cluster(
    failure: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo, "LocalCluster", lambda spec: FakeCluster(failure))
    assert demo.main() == code
    printed = capsys.readouterr()
    assert "the recording" in printed.out
    assert printed.err == f"{message}\n"


def test_without_podman_nothing_is_built_for_a_demo_in_containers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(demo, "LocalCluster", lambda spec: FakeCluster(AssertionError("built")))
    assert demo.main(["--containers", "podman"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("demo: pods cannot be containers: podman is not on PATH;")
