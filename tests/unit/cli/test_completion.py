"""Shell completion: the answers, and the scripts in the shells that this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from secondary_scheduler.cli.completion.scripts import SCRIPTS
from secondary_scheduler.cli.completion.words import complete

ROOT = Path(__file__).parents[3]
KUBECONFIG = "contexts: [{name: east, context: {}}, {name: west, context: {}}]\n"


def values(*words: str) -> list[str]:
    return [value for value, _ in complete(words).values]


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("sn",), ["snapshot"]),
        (("fleet", ""), ["preview", "up", "refresh"]),
        (("fleet", "up", "--ga"), ["--gate", "--gate-timeout"]),
        (("simulate", "-o", ""), ["table", "wide", "json", "yaml"]),
        (("simulate", "--output=j"), ["--output=json"]),
        (("snapshot", "--context", ""), ["east", "west"]),
        (("snapshot", "--context=w"), ["--context=west"]),
        (("completion", "z"), ["zsh"]),
        (("snapshot", "--fi"), ["--file"]),
        (("render", "--stack", "p"), ["prod"]),
        (("snapshot", ""), []),
        (("nonsense", "x", ""), []),
    ],
)
def test_the_last_word_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], completed: list[str]
) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "Pulumi.yaml").write_text("name: p\n")
    (tmp_path / "Pulumi.prod.yaml").write_text("config: {}\n")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.chdir(tmp_path)
    assert values(*words) == completed


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (("validate", ""), True),
        (("snapshot", "--file", ""), True),
        (("simulate", "--config=c"), True),
        (("simulate", "--snapshot", ""), True),
        (("snapshot", "--window", ""), False),
        (("version", ""), False),
    ],
)
def test_files_are_completed_only_where_one_is_taken(words: tuple[str, ...], files: bool) -> None:
    assert complete(words).files is files
    assert complete(words).text().splitlines()[-1] == (":0" if files else ":4")


def test_an_unreadable_kubeconfig_only_completes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    assert values("snapshot", "--context", "") == []


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with the programs as pip installs them."""
    programs = {
        "secondary-scheduler": "main",
        "kubectl-secondary_scheduler": "main",
        "kubectl_complete-secondary_scheduler": "complete",
    }
    for name, function in programs.items():
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import secondary_scheduler.cli.__main__ as m; "
        code += f"m.{function}()"
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
        (tmp_path / name).chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


def test_bash_completes_commands_values_and_files(tmp_path: Path, path: str) -> None:
    (tmp_path / "script").write_text(SCRIPTS["bash"])
    ask = (
        'COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _secondary_scheduler; echo "${{COMPREPLY[*]}}"\n'
    )
    lines = [
        f"source {tmp_path / 'script'}\n",
        ask.format(words="secondary-scheduler sna"),
        ask.format(words="secondary-scheduler simulate -o ''"),
        ask.format(words="secondary-scheduler validate ''"),
        "complete -p secondary-scheduler\n",
    ]
    done = subprocess.run(
        ["bash", "--norc", "-c", "".join(lines)],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.splitlines() == [
        "snapshot",
        "table wide json yaml",
        "",
        "complete -F _secondary_scheduler secondary-scheduler",
    ], done.stderr
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kubectl_completes_its_plugin(tmp_path: Path, path: str) -> None:
    done = subprocess.run(
        ["kubectl", "__complete", "secondary-scheduler", "simulate", "-o", ""],
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.splitlines() == ["table", "wide", "json", "yaml", ":4"], done.stderr


@pytest.mark.parametrize(("shell", "option"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_a_script_is_valid_in_its_shell(tmp_path: Path, shell: str, option: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    (tmp_path / "script").write_text(SCRIPTS[shell])
    done = subprocess.run([program, option, str(tmp_path / "script")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
