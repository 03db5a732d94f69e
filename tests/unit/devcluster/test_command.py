"""How errors of the local cluster leave the command line: one line, and the documented exit code."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from devcluster import command
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

    monkeypatch.setattr(command.state, "default_root", fail)
    app = typer.Typer()
    command.register(app)
    result = CliRunner().invoke(app, ["cluster", "status"])
    assert isinstance(result.exception, CommandError)
    assert str(result.exception) == str(error)
    assert result.exception.code is code
