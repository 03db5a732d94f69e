"""What a bundle of an installation has in it, what it says about the rest, and how its archive is made."""

from __future__ import annotations

import copy
import json
import stat
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from typer.testing import CliRunner

from secondary_scheduler.cli import app
from secondary_scheduler.cli.bundle import collecting
from secondary_scheduler.cli.bundle.archive import Members, safe_name, write_archive
from secondary_scheduler.cli.bundle.collecting import whole_lines
from secondary_scheduler.cli.bundle.redaction import MAX_SECRETS
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.clusterstatus.schedulerclient import SchedulerAnswer
from tests.unit.cli.bundle.installation import (
    DECISION,
    LOGS,
    NAMESPACE,
    FakeConnection,
    FakeScheduler,
    collect,
    everything,
    objects,
)
from tests.unit.scheduler.load.fakes import send, service

POD = "secondary-scheduler-1-a"
FILES = {
    "README.txt",
    "problems.txt",
    "status.yaml",
    "versions.yaml",
    "events.yaml",
    "configurations/running/secondary-scheduler.yaml",
    "configurations/wanted/config.yaml",
    f"logs/{POD}/main.log",
    f"logs/{POD}/main.previous.log",
    f"explain/{POD}/decisions.json",
    f"explain/{POD}/queue.json",
}


def document(members: Members, name: str) -> Any:
    return yaml.safe_load(members.contents[name])


def test_it_has_every_part_of_the_installation_and_nothing_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    served = objects()
    stranger = served["pods"][0] | {"metadata": {"name": "secondary-scheduler-worker"}, "spec": {"containers": []}}
    served["pods"].append(stranger)
    served["events"].append(served["events"][0] | {"involvedObject": {"kind": "Pod", "name": "worker"}})
    members, problems = collect(monkeypatch, served)
    assert (set(members.contents), problems) == (FILES, [])
    assert members.contents["problems.txt"] == b"Everything was read.\n"
    (instance,) = document(members, "status.yaml")["instances"]
    assert (instance["leader"]["pod"], instance["queue"]["active"]) == (POD, 1)
    (event,) = document(members, "events.yaml")
    assert (event["reason"], event["message"]) == ("BackOff", "back-off restarting")
    versions = document(members, "versions.yaml")
    assert versions["kubernetes"] == "v1.34.4"
    (pod,) = versions["pods"]
    (container,) = pod["status"]["containerStatuses"]
    assert container["image"] == "example.com/kube-scheduler:1"
    assert container["lastState"]["terminated"]["message"] == "it ended"
    assert json.loads(members.contents[f"explain/{POD}/decisions.json"]) == {"items": [DECISION]}


def test_pods_and_events_of_the_deployments_belong_to_it_whatever_their_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = objects()
    served["pods"][0]["metadata"]["name"] = "secondary-scheduler-rebalancer-7f9d4c-x2k4p"
    served["pods"][0]["spec"]["containers"][0]["command"] = ["rebalance"]
    served["pods"][0]["spec"]["containers"][0]["args"] = []
    about = [{"kind": "ReplicaSet", "name": "secondary-scheduler-7f9d4c"}, {"kind": "Lease", "name": "another"}]
    served["events"] = [served["events"][0] | {"involvedObject": each} for each in about]
    members, _ = collect(monkeypatch, served)
    assert "logs/secondary-scheduler-rebalancer-7f9d4c-x2k4p/main.log" in members.contents
    assert [each["involvedObject"] for each in document(members, "events.yaml")] == about[:1]


def test_the_configuration_has_the_fields_of_the_model_and_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    members, _ = collect(monkeypatch)
    running = document(members, "configurations/running/secondary-scheduler.yaml")
    assert running == document(members, "configurations/wanted/config.yaml")
    first, second = running["profiles"][0]["pluginConfig"]
    assert first["args"]["metricProvider"] == {
        "type": "Prometheus",
        "address": "https://prometheus.example.com",
        "token": "[secret]",
    }
    assert second == {"name": "Unheard", "args": "[left out]"}
    assert running["extenders"] == [{"urlPrefix": "https://e.example.com", "tlsConfig": {"keyData": "[secret]"}}]


@pytest.mark.parametrize(
    ("resource", "right", "missing"),
    [
        ("secondaryschedulers", "list secondaryschedulers", "configurations/wanted/config.yaml"),
        ("deployments", "list deployments", "configurations/running/secondary-scheduler.yaml"),
        ("pods", "list pods", f"logs/{POD}/main.log"),
        ("configmaps", "get configmaps", "configurations/wanted/config.yaml"),
        ("leases", "list leases", f"explain/{POD}/queue.json"),
        ("events", "list events", ""),
        ("pods/log", "get pods/log", f"logs/{POD}/main.log"),
    ],
)
def test_a_missing_right_is_named_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, resource: str, right: str, missing: str
) -> None:
    members, problems = collect(monkeypatch, refused=frozenset({resource}))
    assert any(line.endswith(f"this user needs to {right} in namespace {NAMESPACE}") for line in problems)
    assert missing not in members.contents
    assert {"README.txt", "versions.yaml", "status.yaml"} <= set(members.contents)
    assert members.contents["problems.txt"].decode().splitlines() == problems


def test_what_a_scheduler_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {path: SchedulerAnswer(403, b"not allowed") for path in ("/debug/decisions", "/debug/queue")}
    members, problems = collect(monkeypatch, answers=refused)
    assert [line for line in problems if line.startswith("explain/")] == [
        f"explain/{POD}/decisions.json: not read: 403: not allowed; this user needs get on the path /debug/decisions "
        "(nonResourceURLs)",
        f"explain/{POD}/queue.json: not read: 403: not allowed; this user needs to list pods in all namespaces",
    ]
    assert set(members.contents) == FILES - {f"explain/{POD}/decisions.json", f"explain/{POD}/queue.json"}


def test_an_answer_that_is_none_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for answer in (
        CommandError(f"pod {POD}: closed"),
        SchedulerAnswer(200, b"<html>"),
        SchedulerAnswer(200, b"[" * 100_000),
    ):
        members, problems = collect(monkeypatch, answers=dict.fromkeys(("/debug/decisions", "/debug/queue"), answer))
        assert f"explain/{POD}/queue.json" not in members.contents
        assert any(line.startswith(f"explain/{POD}/queue.json: not read: ") for line in problems)


def test_no_scheduler_of_another_namespace_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    served, scheduler = objects(), FakeScheduler({})
    for plural in ("secondaryschedulers", "deployments", "leases"):
        moved = copy.deepcopy(served[plural])
        for each in moved:
            each["metadata"]["namespace"] = "team-a"
        served[plural] += moved
    members, _ = collect(monkeypatch, served, scheduler=scheduler)
    assert {namespace for namespace, _, _ in scheduler.asked} == {NAMESPACE}
    assert f"explain/{POD}/queue.json" in members.contents


def test_after_five_minutes_nothing_more_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "_SECONDS", -1.0)
    members, problems = collect(monkeypatch)
    assert "pods: not read: -1 s were over" in problems
    assert not [name for name in members.contents if name.startswith("logs/")]


def test_with_more_secrets_than_can_be_looked_for_nothing_is_written_that_may_have_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = objects()
    variables = [{"name": f"N{number}", "value": f"secret-value-{number}"} for number in range(MAX_SECRETS + 1)]
    served["pods"][0]["spec"]["containers"][0]["env"] = variables
    members, problems = collect(monkeypatch, served, logs={"main": b"secret-value-7\n"})
    assert set(members.contents) == {"README.txt", "problems.txt"}
    assert problems == [f"everything: left out, there are more than {MAX_SECRETS} values to redact"]


HOSTILE = "\x1b[2J\x1b]8;;http://evil.example\x07here\x9b31m\x85\u202e\u2066\u2028\r\nforged\x07\x7f"
"""What a terminal obeys: a CSI, a link (OSC 8), both by C1, ends of lines, changes of direction."""
_REFERENCES = ("name", "namespace", "uid", "kind", "apiVersion", "schedulerConfig", "config.yaml")


def hostile(value: Any) -> Any:
    """The same objects; every text by which no object is found ends with what a terminal obeys, and so does a key."""
    if isinstance(value, dict):
        kept = {
            key: each if key in _REFERENCES and isinstance(each, str) else hostile(each) for key, each in value.items()
        }
        return {**kept, f"more{HOSTILE}": HOSTILE}
    if isinstance(value, list):
        return [hostile(each) for each in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (
            {"served": {plural: [hostile(each) for each in listed] for plural, listed in objects().items()}},
            "versions.yaml",
        ),
        (
            {
                "answers": {
                    "/debug/queue": SchedulerAnswer(200, json.dumps({"reason": HOSTILE, HOSTILE: "more"}).encode())
                }
            },
            f"explain/{POD}/queue.json",
        ),
        ({"answers": {"/debug/queue": SchedulerAnswer(503, HOSTILE.encode())}}, "problems.txt"),
        ({"logs": {"main": f"line\n{HOSTILE}\n".encode()}}, f"logs/{POD}/main.log"),
    ],
    ids=["objects", "answers", "refusals", "logs"],
)
def test_nothing_in_it_and_nothing_said_controls_a_terminal(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], part: str
) -> None:
    members, problems = collect(monkeypatch, **options)
    assert "forged" in everything(members), "else the test shows nothing"
    assert part in members.contents
    for text in (*(content.decode() for content in members.contents.values()), *members.contents, *problems):
        assert all(line.isprintable() for line in text.split("\n")), repr(text)


def test_logs_lose_what_controls_a_terminal_and_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"\x1b[31mred\x1b[0m \x1b]0;title\x07 done\r\n"
    members, _ = collect(monkeypatch, logs={"main": b"first\n" + line * 60_000})
    log = members.contents[f"logs/{POD}/main.log"].decode()
    assert "\x1b" not in log
    assert log.startswith("red ")
    assert len(log.encode()) <= 1 << 20


def test_a_line_that_is_not_whole_is_left_out() -> None:
    assert whole_lines(b"one\ntwo\nthree\n", 100) == b"one\ntwo\nthree\n"
    assert whole_lines(b"one\ntwo\nthree\n", 9) == b"three\n"
    assert whole_lines(b"one\ntwo\nthr", 100, read=11) == b"one\ntwo\n"
    assert whole_lines(b"a secret in a very long line", 9) == b""


@pytest.mark.parametrize(
    ("name", "safe"),
    [("../../etc/passwd", "_.._etc_passwd"), ("", "_"), ("..", "_"), ("a\nb", "a_b"), ("a;b$(c)", "a_b__c_")],
)
def test_names_of_files_lead_nowhere(name: str, safe: str) -> None:
    assert safe_name(name) == safe
    long = safe_name(name + "x" * 1000 + ".yaml")
    assert (len(long), long[-6:]) == (120, "x.yaml")


def test_two_names_that_become_the_same_are_two_files() -> None:
    members = Members(100)
    assert members.add("pods", "a b", content=b"1")
    assert members.add("pods", "a_b", content=b"2")
    assert members.contents == {"pods/a_b": b"1", "pods/a_b-2": b"2"}
    assert not members.add("large", content=b"x" * 99)


def test_objects_named_to_leave_the_folder_stay_in_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    served = objects()
    served["pods"][0]["metadata"]["name"] = "../../../escaped"
    members, _ = collect(monkeypatch, served)
    file = tmp_path / "bundle.tar.gz"
    write_archive(file, "root", members, 1_700_000_000)
    with tarfile.open(file) as archive:
        names = archive.getnames()
    assert all(name.startswith("root/") and ".." not in name.split("/") for name in names)


@pytest.mark.parametrize("name", ["..", "."])
def test_a_name_that_no_object_can_have_is_a_problem_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    served = objects()
    served["secondaryschedulers"][0]["spec"]["schedulerConfig"] = name
    served["pods"][0]["metadata"]["name"] = name
    members, problems = collect(monkeypatch, served)
    assert f"configurations/wanted/{name}.yaml: not read: '{name}' cannot be the name of an object" in problems
    assert "configurations/running/secondary-scheduler.yaml" in members.contents


def test_equal_contents_make_equal_archives_for_their_owner_only(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one.tar.gz", "two.tar.gz")]
    for file, order in zip(files, (("b", "a", "README.txt"), ("README.txt", "a", "b")), strict=True):
        members = Members(100)
        for name in order:
            members.add(name, content=name.encode())
        write_archive(file, "root", members, 1_700_000_000)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    with tarfile.open(files[0]) as archive:
        assert archive.getnames() == ["root/README.txt", "root/a", "root/b"]
        assert {entry.mode for entry in archive.getmembers()} == {0o600}


def kubeconfig(directory: Path, url: str) -> Path:
    file = directory / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": url}}
    context = {"name": "c", "context": {"cluster": "c"}}
    file.write_text(json.dumps({"current-context": "c", "contexts": [context], "clusters": [cluster]}))
    return file


def test_the_command_tells_of_each_part_and_names_the_file(tmp_path: Path) -> None:
    served = objects()
    served["leases"] = []

    def answer(handler: Any) -> None:
        path = urlsplit(handler.path).path
        try:
            send(handler, FakeConnection(served, LOGS).get(path, {"container": "main"}))
        except Exception:
            send(handler, b"{}", 404)

    with service() as api:
        api.answer = answer
        file = tmp_path / "bundle.tar.gz"
        arguments = ["bundle", "-n", NAMESPACE, "--kubeconfig", str(kubeconfig(tmp_path, api.url)), "--file", str(file)]
        done = CliRunner().invoke(app.build(arguments), [*arguments, "--since", "1h"])
        logs = [path for path in api.paths if "/log?" in path]
    assert (done.exit_code, done.stdout) == (0, f"{file}\n")
    assert "status.yaml: " in done.stderr
    assert "problems: 1, see problems.txt in the archive" in done.stderr
    assert all("limitBytes=" in path for path in logs)
    assert [("sinceSeconds=3600" in path) for path in logs if "previous" not in path] == [True, True]
    with tarfile.open(file) as archive:
        assert any(name.endswith(f"/logs/{POD}/main.log") for name in archive.getnames())


def test_a_cluster_that_does_not_answer_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    arguments = ["bundle", "--kubeconfig", str(kubeconfig(tmp_path, "http://127.0.0.1:9"))]
    done = CliRunner().invoke(app.build(arguments), [*arguments, "--file", str(tmp_path / "b.tar.gz")])
    assert isinstance(done.exception, CommandError)
    assert done.exception.code == 1
    assert [file.name for file in tmp_path.iterdir()] == ["kubeconfig"]
