from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from devcluster import state
from devcluster.cluster import LocalCluster
from devcluster.errors import ClusterStateError, SpecError
from devcluster.processes import ProcessRecord
from devcluster.spec import ClusterSpec
from devcluster.state import RecordedCluster, StateDirectory
from tests.support.waiting import PATIENCE_SECONDS


def sample(name: str = "dev") -> RecordedCluster:
    record = ProcessRecord(service="etcd", pid=2**22, started="x:1", log=Path("/l"), stop_seconds=1)
    return RecordedCluster(
        name=name,
        complete=True,
        nodes=3,
        real_nodes=1,
        ports={"kube-apiserver": 20001, "prometheus-gateway": 20002},
        pod_network="127.20",
        processes=[record],
    )


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "-a", "a-", "a" * 31, "a.b"])
def test_a_name_that_could_not_be_a_directory_or_context_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match="cluster name"):
        StateDirectory(tmp_path, name)


@pytest.mark.parametrize(
    "options",
    [{"nodes": -1}, {"nodes": 10_001}, {"real_nodes": 51}, {"api_server_port": 80}, {"prometheus_port": 70_000}],
)
def test_a_cluster_nobody_can_have_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(SpecError):
        ClusterSpec(**options)  # type: ignore[arg-type]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "dev")
    assert directory.read() is None
    directory.create()
    directory.write(sample())
    assert directory.read() == sample()
    assert state.cluster_names(tmp_path) == ["dev"]
    assert (directory.path.stat().st_mode & 0o777) == 0o700


def test_a_damaged_file_says_how_to_get_rid_of_it(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "dev")
    directory.create()
    directory.file.write_text("{")
    with pytest.raises(ClusterStateError, match=r"cluster\.json is damaged.*cluster down --name dev"):
        directory.read()


def test_down_removes_a_cluster_whose_file_is_damaged(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "dev")
    directory.create()
    directory.file.write_text("{")
    assert LocalCluster(ClusterSpec(name="dev", state_root=tmp_path)).stop()
    assert list((tmp_path / "clusters").iterdir()) == []


def test_a_cluster_whose_processes_have_gone_does_not_run(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "dev")
    directory.create()
    directory.write(sample())
    status = LocalCluster.attach("dev", tmp_path).status()
    assert not status.running
    assert status.api_server == "https://127.0.0.1:20001"
    assert status.prometheus == "https://127.0.0.1:20002"
    assert [(service.name, service.running) for service in status.services] == [("etcd", False)]


def test_a_full_disk_is_reported_before_anything_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 60 << 20})
    monkeypatch.setattr(state.shutil, "disk_usage", lambda _: usage)
    directory = StateDirectory(tmp_path, "dev")
    with pytest.raises(
        ClusterStateError, match=r"clusters has 60 MiB free and a cluster needs 500: free some space, or set"
    ):
        directory.create()
    assert not directory.path.exists()


def test_attaching_to_a_missing_cluster_reports_how_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(ClusterStateError, match=r"no local cluster 'x' in .*cluster up --name x"):
        LocalCluster.attach("x", tmp_path)


def test_unreadable_clusters_are_left_out_of_the_other_clusters(tmp_path: Path) -> None:
    for name in ("a", "b", "broken"):
        directory = StateDirectory(tmp_path, name)
        directory.create()
        directory.write(sample(name))
    (tmp_path / "clusters/broken/cluster.json").write_text("nonsense")
    assert [other.name for other in state.other_clusters(tmp_path, "a")] == ["b"]


def _try_to_lock(root: Path, answers: multiprocessing.Queue[str]) -> None:
    try:
        with StateDirectory(root, "dev").lock():
            answers.put("got it")
    except ClusterStateError as error:
        answers.put(str(error))


def test_one_command_at_a_time_and_the_lock_leaves_no_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[str] = context.Queue()
    for held in (True, False):
        lock = StateDirectory(tmp_path, "dev").lock()
        if held:
            lock.__enter__()
        other = context.Process(target=_try_to_lock, args=(tmp_path, answers))
        other.start()
        answer = answers.get(timeout=PATIENCE_SECONDS)
        other.join()
        if held:
            lock.__exit__(None, None, None)
            assert answer.startswith(f"another command (process {os.getpid()}) is using cluster dev")
        else:
            assert answer == "got it"
    assert list((tmp_path / "clusters").iterdir()) == []


def test_a_root_that_cannot_be_used_is_named_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ClusterStateError, match=r"file/clusters: Not a directory; set SECONDARY_SCHEDULER_HOME"),
        StateDirectory(tmp_path / "file", "dev").lock(),
    ):
        pass
