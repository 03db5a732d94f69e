"""Each kind of error has one exit code, whatever the command: the table of docs/commands.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from secondary_scheduler.cli import app
from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.files import MAX_TEXT

ROOT = Path(__file__).parents[3]
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
"""
KUBECONFIG = """\
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:9", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: secret-canary}}]
"""
PROJECT = "name: secondary-scheduler\nruntime: python\n"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a good and a bad file of each kind; KUBECONFIG names a cluster that does not answer."""
    files = {
        "config.yaml": CONFIGURATION,
        "bad.yaml": CONFIGURATION.replace("schedulerName", "colour"),
        "kubeconfig": KUBECONFIG,
        "empty.yaml": "",
        "token": "t",
        "project/Pulumi.yaml": PROJECT,
        "project/Pulumi.bad.yaml": "config: [",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    with (tmp_path / "large.yaml").open("wb") as large:
        large.truncate(MAX_TEXT + 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    return tmp_path


def call(arguments: str) -> tuple[int, str]:
    """Exit code and everything that the user sees."""
    words = arguments.split()
    try:
        done: Result = CliRunner().invoke(app.build(words), words)
    except CommandError as error:
        return error.code, str(error)
    if isinstance(done.exception, CommandError):
        return done.exception.code, done.output + str(done.exception)
    if isinstance(done.exception, OSError):
        return ExitCode.ERROR, done.output + str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


USAGE = [
    "nonsense",
    "validate",
    "validate config.yaml -o xml",
    "validate config.yaml --flavour go",
    "validate - -",
    "convert",
    "convert config.yaml --image x --colour",
    "convert config.yaml --for go",
    "convert config.yaml --image x --for ours",
    "version -n ..",
    "version -n a/b",
    "status --namespace ..",
    "explain pod x -n ..",
    "explain pod x --scheduler-namespace ..",
    "explain pod x --scheduler-pod ../x",
    "opt-in status -n ..",
    "snapshot --window ten",
    "snapshot --prometheus ftp://x",
    "snapshot --prometheus http://x --watcher http://y",
    "snapshot --token-file token",
    "simulate",
    "simulate --config config.yaml",
    "simulate --config config.yaml --snapshot empty.yaml --detail most",
    "simulate --config config.yaml --snapshot empty.yaml --now yesterday",
    "simulate --config config.yaml --snapshot - --load -",
    "plan --old config.yaml --snapshot empty.yaml",
    "plan --old config.yaml --new - --snapshot -",
    "plan --old config.yaml --new config.yaml --snapshot empty.yaml --over none",
    "plan --old config.yaml --new config.yaml --snapshot empty.yaml --now yesterday",
    "plan --old config.yaml --new config.yaml --snapshot empty.yaml --summary -o json",
    "plan --old config.yaml --new config.yaml --snapshot empty.yaml --as-scheduler a=b",
    "preflight --stack prod",
    "preflight --address ftp://x",
    "preflight --service-account A/B/C",
    "preflight --address http://x --token-file token --service-account a/b",
    "selftest --report page.txt",
    "selftest --image x --scheduler-binary token",
    "selftest --image x --image-pull-policy Sometimes",
    "render",
    "render --stack absent --project project",
    "render --stack prod --project .",
    "render --stack bad --project project --output-dir token",
    "render --stack bad --project project --format kustomize",
    "fleet",
    "fleet preview",
    "fleet preview --stacks absent --project project",
    "fleet preview --stacks x --project .",
    "fleet up --stacks x --parallel none",
    "explain",
    "explain pod",
    "explain pod p --port 0",
    "status -n x -A",
    "status --interval 3",
    "status -o xml",
    "top",
    "top nodes --sort-by colour",
    "top nodes --watch --interval 0",
    "top nodes --port 0",
    "bundle --since yesterday",
    "bundle --since 0s",
    "bundle extra",
    "bundle -n ..",
    "rebalance",
    "rebalance plan --config config.yaml --snapshot empty.yaml --context c",
    "rebalance plan --config config.yaml --snapshot empty.yaml --rounds 0",
    "rebalance plan --config config.yaml --snapshot - --load -",
    "rebalance plan --config config.yaml empty.yaml",
    "rebalance plan --config config.yaml --prometheus http://x --watcher http://y",
    "opt-in",
    "opt-in status -n x -A",
    "opt-in check --wait -1",
    "ui --snapshot empty.yaml --scheduler-pod s",
    "ui --snapshot - --load -",
    "ui --window ten",
    "ui --prometheus http://x --watcher http://y",
    "ui --snapshot empty.yaml --as-scheduler a=b",
    "version --client -n x",
    "version -n x -A",
    "completion tcsh",
    "simulate --config config.yaml --snapshot empty.yaml --as-scheduler a=b",
]
INVALID = [
    *(
        command.format(file)
        for file in ("absent.yaml", "bad.yaml", "large.yaml")
        for command in (
            "validate {}",
            "convert {}",
            "simulate --config {} --snapshot empty.yaml",
            "plan --old {} --new config.yaml --snapshot empty.yaml",
            "plan --old config.yaml --new {} --snapshot empty.yaml",
            "preflight --config {}",
            "ui --snapshot empty.yaml --config {}",
        )
    ),
    *(
        command.format(file)
        for file in ("absent.yaml", "large.yaml")
        for command in (
            "preflight --address http://x --token-file {}",
            "preflight --address http://x --write {}",
            "snapshot --prometheus http://x --token-file {}",
        )
    ),
    "simulate --config config.yaml --snapshot absent.yaml",
    "plan --old config.yaml --new config.yaml --snapshot absent.yaml",
    "plan --old config.yaml --new config.yaml --snapshot empty.yaml --load absent.json",
    "simulate --config config.yaml --snapshot empty.yaml --load absent.json",
    "simulate --config config.yaml --snapshot empty.yaml --load token",
    "simulate --config config.yaml --snapshot empty.yaml --pod absent.yaml",
    "ui --snapshot absent.yaml",
    "ui --snapshot empty.yaml --old bad.yaml",
    "render --stack bad --project project",
    "fleet preview --stacks bad --project project",
]
FAILED = [
    "snapshot",
    "snapshot --context absent",
    "snapshot --kubeconfig absent",
    "snapshot --kubeconfig large.yaml",
    "snapshot --file absent/snapshot.json",
    "snapshot --file project",
    "preflight --address http://x",
    "preflight --address http://x --kubeconfig absent",
    "explain pod p",
    "explain pod p --kubeconfig absent",
    "explain pod p --scheduler-pod q",
    "status",
    "status --kubeconfig absent",
    "top nodes",
    "top nodes --kubeconfig absent",
    "bundle",
    "bundle --kubeconfig absent",
    "bundle --file absent/bundle.tar.gz",
    "bundle --file project",
    "rebalance plan --config config.yaml",
    "rebalance plan --config config.yaml --kubeconfig absent",
    "opt-in status",
    "opt-in check --kubeconfig absent",
    "ui",
    "ui --kubeconfig absent",
    "version",
    "version --kubeconfig absent",
    "convert config.yaml --file absent/new.yaml",
    "fleet preview --stacks bad --project project --markdown absent/comment.md",
]


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        *((ExitCode.USAGE, arguments) for arguments in USAGE),
        *((ExitCode.INVALID_INPUT, arguments) for arguments in INVALID),
        *((ExitCode.ERROR, arguments) for arguments in FAILED),
    ],
)
def test_a_kind_of_error_has_the_same_code_in_every_command(code: ExitCode, arguments: str) -> None:
    ended, shown = call(arguments)
    assert ended == code, shown
    assert shown.strip()
    assert "Traceback" not in shown
    assert "SSLContext" not in shown
    assert "Errno" not in shown
    assert "secret-canary" not in shown


@pytest.mark.parametrize("command", [*app.COMMANDS])
def test_every_command_is_tried_with_a_mistake(command: str) -> None:
    assert [arguments for arguments in USAGE if arguments.split()[0] == command]


@pytest.mark.usefixtures("directory")
def test_a_large_file_is_refused_before_it_is_parsed(directory: Path) -> None:
    (directory / "large.yaml").write_text("a: [" + "1, " * (7 << 20) + "1]")
    done = subprocess.run(
        [sys.executable, "-m", "secondary_scheduler.cli", "validate", "large.yaml"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.INVALID_INPUT
    assert done.stderr == "large.yaml: larger than 1 MiB, which is the most that is read of such a file\n"


@pytest.mark.usefixtures("directory")
def test_what_never_ends_is_read_no_further_than_the_limit() -> None:
    code, shown = call("simulate --config /dev/zero --snapshot empty.yaml")
    assert code == ExitCode.INVALID_INPUT
    assert "/dev/zero: larger than 1 MiB" in shown


def test_the_table_of_the_documentation_names_every_code() -> None:
    text = (ROOT / "docs/commands.md").read_text()
    documented = [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert documented == [code.value for code in ExitCode]
