"""What the command line does about mistakes and expected errors: one line, and the documented exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from secondary_scheduler.cli import app
from secondary_scheduler.cli.errors import CommandError, ExitCode, Interrupted


def run(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "secondary_scheduler.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"SECONDARY_SCHEDULER_HOME": str(home), "PATH": "/usr/bin:/bin", "HOME": str(home), "COLUMNS": "200"},
    )


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (CommandError("no such file", ExitCode.INVALID_INPUT), 4, "secondary-scheduler: no such file\n"),
        (OSError(28, "No space left on device", "/x/y"), 1, "secondary-scheduler: /x/y: No space left on device\n"),
        (Interrupted(), 130, "secondary-scheduler: interrupted; everything unfinished was removed\n"),
    ],
)
def test_expected_errors_are_one_line_and_their_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], raised: BaseException, code: int, line: str
) -> None:
    def command(_: list[str]) -> None:
        raise raised

    monkeypatch.setattr(app, "build", lambda _: command)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with pytest.raises(SystemExit) as ended:
            app.main()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert ended.value.code == code
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_whose_event_loop_runs_a_callback(number: signal.Signals) -> None:
    code = (
        "import asyncio, os, sys\n"
        "from secondary_scheduler.cli import app\n"
        "async def wait():\n"
        f"    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), {number.value})\n"
        "    await asyncio.Event().wait()\n"
        "def register(application):\n"
        "    application.command('version')(lambda: asyncio.run(wait()))\n"
        "app.COMMANDS['version'] = '__main__'\n"
        "sys.argv[1:] = ['version']\n"
        "app.main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == ExitCode.INTERRUPTED, ended.stderr
    assert ended.stderr == "secondary-scheduler: interrupted; everything unfinished was removed\n"


def test_help_lists_the_commands_and_is_no_error(tmp_path: Path) -> None:
    result = run("--help", home=tmp_path)
    assert result.returncode == 0
    assert "cluster" in result.stdout
    group = run("cluster", "--help", home=tmp_path)
    assert group.returncode == 0
    assert all(command in group.stdout for command in ("up", "down", "status", "env", "logs", "load"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("cluster", "nonsense"),
        ("cluster", "up", "--nodes", "-1"),
        ("cluster", "up", "--nodes", "many"),
        ("cluster", "up", "--name", "No Such Name"),
        ("cluster", "up", "--api-server-port", "80"),
        ("cluster", "status", "-o", "xml"),
    ],
)
def test_a_usage_mistake_exits_2_and_starts_nothing(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = run(*arguments, home=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["status", "env", "logs", "load"])
def test_asking_for_a_cluster_that_is_not_there_says_how_to_start_it(tmp_path: Path, command: str) -> None:
    result = run("cluster", command, "--name", "absent", home=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "cluster up --name absent" in result.stderr


def test_down_of_nothing_is_no_error_and_says_so(tmp_path: Path) -> None:
    result = run("cluster", "down", "--name", "absent", home=tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
    assert "There is no local cluster 'absent'" in result.stderr


def test_a_binary_that_cannot_be_had_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "secondary_scheduler.cli", "cluster", "up"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            "SECONDARY_SCHEDULER_HOME": str(tmp_path / "home"),
            "SECONDARY_SCHEDULER_BIN_DIR": str(tmp_path / "absent"),
            "PATH": "",
            "HOME": str(tmp_path),
        },
    )
    assert result.returncode == 1
    assert result.stderr.startswith("secondary-scheduler: SECONDARY_SCHEDULER_BIN_DIR=")
    assert result.stderr.count("\n") == 1
    assert list((tmp_path / "home" / "clusters").iterdir()) == []


def test_starting_the_command_line_loads_no_command_that_was_not_asked_for() -> None:
    code = (
        "import sys; from secondary_scheduler.cli.app import main;"
        "heavy = {'kubernetes', 'pulumi', 'numpy', 'aiohttp', 'requests', 'cryptography'} & set(sys.modules);"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("--context a -n b version -o json", "version --context a -n b -o json"),
        ("--kubeconfig=k -A version", "version --kubeconfig=k -A"),
        ("version --context a", "version --context a"),
        ("--help", "--help"),
        ("--context", "--context"),
        ("-n", "-n"),
    ],
)
def test_kubectl_s_options_may_precede_the_command(typed: str, read: str) -> None:
    assert app.with_command_first(typed.split()) == read.split()
