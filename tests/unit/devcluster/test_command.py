"""How errors of the local cluster leave the command line: one line, and the documented exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from devcluster import command
from devcluster.cluster import ClusterStatus, LocalCluster, ServiceStatus
from devcluster.errors import DevClusterError, ServiceError, SpecError
from secondary_scheduler.cli import CommandError, ExitCode


@pytest.mark.parametrize(
    ("error", "code"), [(SpecError("-3 nodes"), ExitCode.USAGE), (ServiceError("etcd ended"), ExitCode.ERROR)]
)
def test_an_error_of_the_cluster_keeps_its_text_and_gets_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, error: DevClusterError, code: ExitCode
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(command.LocalCluster, "attach", fail)
    app = typer.Typer()
    command.register(app)
    result = CliRunner().invoke(app, ["cluster", "status"])
    assert isinstance(result.exception, CommandError)
    assert str(result.exception) == str(error)
    assert result.exception.code is code


@pytest.mark.parametrize(
    ("kubeconfig", "expected"),
    [
        ("{root}/clusters/mine/kubeconfig", "mine"),
        ("{root}/clusters/mine/kubeconfig-readonly", "mine"),
        ("{root}/elsewhere/kubeconfig", "dev"),
        ("{root}/clusters/gone/kubeconfig", "dev"),
        ("", "dev"),
    ],
)
def test_load_is_about_the_cluster_of_kubeconfig_and_else_about_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubeconfig: str, expected: str
) -> None:
    (tmp_path / "clusters" / "mine").mkdir(parents=True)
    (tmp_path / "clusters" / "mine" / "cluster.json").write_text("{}")
    monkeypatch.setenv("SECONDARY_SCHEDULER_HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", kubeconfig.format(root=tmp_path))
    names: list[str] = []

    def attach(name: str) -> LocalCluster:
        names.append(name)
        raise ServiceError("not running")

    monkeypatch.setattr(command.LocalCluster, "attach", attach)
    app = typer.Typer()
    command.register(app)
    for arguments in (["load"], ["status"], ["load", "--name", "other"]):
        CliRunner().invoke(app, ["cluster", *arguments])
    assert names == [expected, expected, "other"]


def test_a_row_of_status_is_one_uncut_line(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = Path("/home/a-user-with-a-name/.local/state/secondary-scheduler/clusters/a-cluster-with-a-long-name")
    service = ServiceStatus("kube-apiserver", 4711, True, directory / "log")
    known = ClusterStatus(
        "long", "1.34", True, "https://127.0.0.1:6443", None, None, directory / "kubeconfig", directory, (service,)
    )

    class Known:
        def status(self) -> ClusterStatus:
            return known

    monkeypatch.setattr(command.LocalCluster, "attach", lambda name: Known())
    app = typer.Typer()
    command.register(app)
    lines = CliRunner().invoke(app, ["cluster", "status"], env={"COLUMNS": "40"}).stdout.splitlines()
    assert f"kubeconfig          {directory}/kubeconfig" in lines
    assert f"readonlyKubeconfig  {directory}/kubeconfig-readonly" in lines
    assert "running             yes" in lines
    assert lines[-2:] == ["SERVICE         RUNNING  PID", "kube-apiserver  yes      4711"]
