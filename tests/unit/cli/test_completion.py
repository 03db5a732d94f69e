"""Shell completion: the answers, and the scripts in the shells that this machine has."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from secondary_scheduler.cli.completion import SCRIPTS, complete

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
        (("--context", ""), ["east", "west"]),
        (("--context=w",), ["--context=west"]),
        (("--context", "west", "sn"), ["snapshot"]),
        (("--context", "west", "snapshot", "--fi"), ["--file"]),
        (("--con",), ["--context"]),
        (("nonsense/",), []),
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


NAMES = {
    "/api/v1/namespaces": ["default", "shop"],
    "/api/v1/nodes": ["node-1", "node-2", "evil;rm -rf $HOME"],
    "/api/v1/namespaces/shop/pods": ["web-1", "web-2"],
    "/api/v1/namespaces/default/pods": ["other"],
    "/apis/apps/v1/namespaces/default/deployments": ["other"],
    "/apis/apps/v1/namespaces/shop/deployments": ["api", "web"],
    "/api/v1/namespaces/openshift-secondary-scheduler-operator/pods": ["scheduler-1"],
}


class Handler(http.server.BaseHTTPRequestHandler):
    """An API server that lists names."""

    def do_GET(self) -> None:
        names = NAMES.get(self.path.partition("?")[0])
        body = json.dumps({"items": [{"metadata": {"name": name}} for name in names or ()]}).encode()
        self.send_response(200 if names else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A kubeconfig of that server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        context = {"name": "c", "context": {"cluster": "c"}}
        named = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        file = tmp_path / "kubeconfig"
        file.write_text(json.dumps({"current-context": "c", "contexts": [context], "clusters": [named]}))
        yield str(file)
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("status", "-n", ""), ["default", "shop"]),
        (("status", "--namespace=s"), ["--namespace=shop"]),
        (("explain", "pod", "-n", "shop", ""), ["web-1", "web-2"]),
        (("explain", "pod", ""), ["other"]),
        (("explain", "pod", "web-1", "-n", "shop", "--why-not", "node-"), ["node-1", "node-2"]),
        (("explain", "node", ""), ["node-1", "node-2"]),
        (("explain", "queue", "--scheduler-pod", ""), ["scheduler-1"]),
        (("explain", "pod", "-n", "elsewhere", ""), []),
        (("explain", "pod", "pod/"), ["pod/other"]),
        (("explain", "pod", "-n", "shop", "deployment/a"), ["deployment/api"]),
        (("explain", "pod", "-n", "shop", "service/"), []),
        (("explain", "pod", "--snapshot", "cluster.json", ""), []),
    ],
)
def test_names_of_the_cluster_are_completed(cluster: str, words: tuple[str, ...], completed: list[str]) -> None:
    *command, last = words
    at = 2 if command[0] == "explain" else 1
    assert values(*command[:at], "--kubeconfig", cluster, *command[at:], last) == completed


def test_a_deployment_is_completed_in_place_of_a_kind(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", cluster)
    assert values("explain", "deployment/") == ["deployment/other"]
    assert values("--namespace", "shop", "explain", "deploy/") == ["deploy/api", "deploy/web"]
    assert values("-n", "sh") == ["shop"]


def test_a_cluster_that_does_not_answer_completes_nothing(cluster: str) -> None:
    Path(cluster).write_text(Path(cluster).read_text().replace("127.0.0.1:", "127.0.0.1:1"))
    assert values("explain", "node", "--kubeconfig", cluster, "") == []


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
