"""How a command finds its cluster: kubectl's order, and logins by a program through the official client's loader."""

from __future__ import annotations

import io
import json
import logging
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scheduler.kube.client import ConfigError
from secondary_scheduler.cli import connecting
from secondary_scheduler.cli.connecting import load_connection, load_text, renewed_connection
from tests.support.waiting import eventually

PLUGIN = """#!{python}
import datetime, json, os, pathlib, sys
calls = pathlib.Path(__file__).with_name("calls")
number = len(calls.read_text().splitlines()) + 1 if calls.exists() else 1
with calls.open("a") as log:
    log.write("call\\n")
assert json.loads(os.environ["KUBERNETES_EXEC_INFO"])["kind"] == "ExecCredential"
if "--fail" in sys.argv:
    sys.exit("not logged in: run the login first")
now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
status = {{"token": f"token-{{number}}", "expirationTimestamp": now}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A program that gives another token each time, which expires at once."""
    file = tmp_path / "plugin"
    file.write_text(PLUGIN.format(python=sys.executable))
    file.chmod(0o700)
    return file


def kubeconfig(file: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None, context: str = "c") -> Path:
    server = {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True}
    document = {
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": context, "user": context, "namespace": "shop"}}],
        "clusters": [{"name": context, "cluster": {**server, **(cluster or {})}}],
        "users": [{"name": context, "user": user}],
    }
    file.write_text(json.dumps(document))
    return file


def login(command: str | Path, *arguments: str, **more: Any) -> dict[str, Any]:
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(command),
            "args": list(arguments),
            "interactiveMode": "Never",
            **more,
        }
    }


def test_a_program_s_token_is_used(tmp_path: Path, plugin: Path) -> None:
    config = load_connection(kubeconfig(tmp_path / "k", login(plugin)), None)
    assert (config.server, config.namespace, config.token) == ("https://127.0.0.1:6443", "shop", "token-1")
    assert config.insecure_skip_tls_verify


def test_only_the_chosen_context_s_program_is_run(
    tmp_path: Path, plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kubeconfig(tmp_path / "a", {"token": "plain"}, context="plain")
    second = kubeconfig(tmp_path / "b", login(plugin), context="cloud")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'absent'}:{second}")
    assert load_connection(None, None).token == "plain"
    assert not (tmp_path / "calls").exists()
    assert load_connection(None, "cloud").token == "token-1"


def test_a_running_process_gets_the_renewed_token(
    tmp_path: Path, plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "_RENEW_SECONDS", 0.01)
    with renewed_connection(kubeconfig(tmp_path / "k", login(plugin)), None) as config:
        file = config.token_file
        assert file is not None
        assert config.token is None
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        number = int(file.read_text().removeprefix("token-"))
        eventually(lambda: int(file.read_text().removeprefix("token-")) > number)
    assert not file.exists()


@pytest.mark.parametrize(
    ("user", "reason"),
    [
        (login("./plugin", "--fail"), "process returned 1. not logged in: run the login first"),
        (login("/absent/aws", installHint="install the AWS CLI"), "'/absent/aws' (install the AWS CLI)"),
        (login("/bin/true"), "failed to decode process output"),
        ({"exec": {"command": "/bin/true"}}, "missing key 'apiVersion'"),
        ({**login("./plugin"), "as": "root"}, "as (impersonation) is not supported"),
        ({"auth-provider": {"name": "unknown"}}, "the login gave neither a token nor a certificate"),
    ],
)
@pytest.mark.usefixtures("plugin")
def test_a_login_that_fails_is_said_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], user: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError) as failed:
        load_connection(kubeconfig(tmp_path / "k", user), None)
    assert reason in str(failed.value)
    assert "\n" not in str(failed.value)
    assert str(tmp_path / "k") in str(failed.value)
    assert capfd.readouterr() == ("", ""), "the loader's own log is not printed"


@pytest.mark.usefixtures("plugin")
def test_why_a_login_failed_is_not_printed_by_a_handler_that_is_there_already(tmp_path: Path) -> None:
    printed = io.StringIO()
    handler = logging.StreamHandler(printed)
    logging.getLogger().addHandler(handler)
    try:
        with pytest.raises(ConfigError):
            load_connection(kubeconfig(tmp_path / "k", login("./plugin", "--fail")), None)
        logging.error("something else")
    finally:
        logging.getLogger().removeHandler(handler)
    assert printed.getvalue() == "something else\n"


def test_a_proxy_is_refused(tmp_path: Path, plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="proxy-url is not supported"):
        load_connection(kubeconfig(tmp_path / "k", login(plugin), {"proxy-url": "http://p"}), None)
    monkeypatch.setenv("HTTPS_PROXY", "http://p:1")
    with pytest.raises(ConfigError, match="HTTPS_PROXY is set"):
        load_connection(kubeconfig(tmp_path / "k", login(plugin), {"server": "https://api.example.com"}), None)


def test_a_kubeconfig_as_text_may_name_a_program_too(tmp_path: Path, plugin: Path) -> None:
    text = kubeconfig(tmp_path / "k", login(plugin)).read_text()
    assert load_text(text, None).token == "token-1"


def test_in_a_pod_a_named_kubeconfig_comes_first_as_for_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("account")
    monkeypatch.setattr("scheduler.kube.client.config.SERVICE_ACCOUNT", account)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert load_connection(None, None).token_file == account / "token"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "k", {"token": "plain"})))
    assert load_connection(None, None).token == "plain"


def test_stacks_log_in_at_the_same_time_and_each_gets_its_own_reason(tmp_path: Path) -> None:
    # Each program waits until both run: one after the other they would wait for ever.
    meeting = "#!/bin/sh\ntouch {directory}/{me}\nwhile [ ! -e {directory}/{other} ]; do sleep 0.05; done\n"
    meeting += "echo no {me} >&2; exit 1\n"
    files = []
    for me, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"plugin-{me}").write_text(meeting.format(directory=tmp_path, me=me, other=other))
        (tmp_path / f"plugin-{me}").chmod(0o700)
        files.append(kubeconfig(tmp_path / f"k-{me}", login(tmp_path / f"plugin-{me}")))

    def reason(file: Path) -> str:
        with pytest.raises(ConfigError) as failed:
            load_connection(file, None)
        return str(failed.value).rpartition(". ")[2]

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(reason, files)) == ["no a", "no b"]
