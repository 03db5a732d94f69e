"""What a bundle of an installation has in it, what it says about the rest, and how its archive is made."""

from __future__ import annotations

import json
import stat
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from typer.testing import CliRunner

from scheduler.kube.client import ConnectionFailed
from secondary_scheduler.cli import app
from secondary_scheduler.cli.bundle.archive import Members, safe_name, write_archive
from secondary_scheduler.cli.bundle.collecting import tail
from secondary_scheduler.cli.bundle.redaction import MOST_SECRETS
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.clusterstatus.forwarding import Answer
from tests.unit.cli.bundle.installation import NAMESPACE, FakeConnection, ask_fake, collect, everything, objects
from tests.unit.scheduler.load.fakes import send, service

POD = "secondary-scheduler-1-a"
FILES = {
    "README.txt",
    "problems.txt",
    "versions.yaml",
    "events.yaml",
    "secondaryschedulers/cluster.yaml",
    "deployments/secondary-scheduler.yaml",
    "replicasets/secondary-scheduler-1.yaml",
    f"pods/{POD}.yaml",
    "leases/secondary-scheduler.yaml",
    "configurations/config.yaml",
    f"logs/{POD}/main.log",
    f"logs/{POD}/main.previous.log",
    *(f"schedulers/{POD}/{page}" for page in ("metrics.txt", "configz.json", "statusz.txt", "flagz.txt", "readyz.txt")),
}


def document(members: Members, name: str) -> Any:
    return yaml.safe_load(members.contents[name])


def test_it_has_every_part_of_the_installation_and_nothing_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    members, problems = collect(monkeypatch)
    assert (set(members.contents), problems) == (FILES, [])
    assert members.contents["problems.txt"] == b"Everything was read.\n"
    (container,) = document(members, f"pods/{POD}.yaml")["spec"]["containers"]
    assert container["args"] == ["--config=/etc/kubernetes/config.yaml", "-v=2", "[2 left out]"]
    assert container["env"] == [{"name": "SETTING"}, {"name": "FROM"}]
    assert container["resources"] == {"requests": {"cpu": "100m"}, "limits": {"memory": "2Gi"}}
    (event,) = document(members, "events.yaml")
    assert (event["reason"], event["message"]) == ("BackOff", "back-off restarting")
    lease = document(members, "leases/secondary-scheduler.yaml")
    assert lease["metadata"]["annotations"] == {"secondary-scheduler.io/configuration-hash": "0123456789abcdef"}
    versions = document(members, "versions.yaml")
    assert versions["kubernetes"] == "v1.34.4"
    assert versions["images"][0]["image"] == "example.com/kube-scheduler:1"


def test_the_configuration_has_the_fields_of_the_model_and_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    members, _ = collect(monkeypatch)
    served = json.loads(members.contents[f"schedulers/{POD}/configz.json"])["componentconfig"]
    written = document(members, "configurations/config.yaml")["config.yaml"]
    assert served == written
    first, second = written["profiles"][0]["pluginConfig"]
    assert first["args"]["metricProvider"] == {
        "type": "Prometheus",
        "address": "https://prometheus.example.com",
        "token": "[secret]",
    }
    assert second == {"name": "Unheard", "args": "[left out]"}
    assert written["extenders"] == [{"urlPrefix": "https://e.example.com", "tlsConfig": {"keyData": "[secret]"}}]
    assert members.contents[f"schedulers/{POD}/flagz.txt"] == b"leader-elect=true\n"


@pytest.mark.parametrize(
    ("resource", "right", "missing"),
    [
        ("secondaryschedulers", "list secondaryschedulers.operator.openshift.io", "secondaryschedulers/cluster.yaml"),
        ("deployments", "list deployments.apps", "deployments/secondary-scheduler.yaml"),
        ("pods", "list pods", f"pods/{POD}.yaml"),
        ("configmaps", "get configmaps", "configurations/config.yaml"),
        ("leases", "list leases.coordination.k8s.io", "leases/secondary-scheduler.yaml"),
        ("events", "list events", "events.yaml"),
        ("pods/log", "get pods/log", f"logs/{POD}/main.log"),
    ],
)
def test_a_missing_right_is_named_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, resource: str, right: str, missing: str
) -> None:
    members, problems = collect(monkeypatch, refused=frozenset({resource}))
    assert any(line.endswith(f"missing right: {right} in namespace {NAMESPACE}") for line in problems)
    assert missing not in members.contents
    assert {"README.txt", "versions.yaml", "replicasets/secondary-scheduler-1.yaml"} <= set(members.contents)
    assert members.contents["problems.txt"].decode().splitlines() == problems


def test_what_a_scheduler_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str, path: str) -> Answer:
        return Answer(200, b"[+]ping ok\n") if path.startswith("/readyz") else Answer(403, b"not allowed")

    members, problems = collect(monkeypatch, ask=refuse)
    assert f"schedulers/{POD}/configz.json: 403, missing right: get on the non-resource URL /configz" in problems
    assert len(problems) == 4
    assert [name for name in members.contents if name.startswith("schedulers/")] == [f"schedulers/{POD}/readyz.txt"]


def test_a_page_that_need_not_be_served_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    optional = ("/statusz", "/flagz")
    _, problems = collect(
        monkeypatch, ask=lambda pod, path: Answer(404, b"") if path in optional else ask_fake(pod, path)
    )
    assert problems == []
    _, problems = collect(monkeypatch, ask=lambda *_: Answer(404, b""))
    assert [line.partition(":")[0].rpartition("/")[2] for line in problems] == [
        "metrics.txt",
        "configz.json",
        "readyz.txt",
    ]


def test_a_scheduler_that_cannot_be_reached_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = []

    def fail(pod: str, path: str) -> Answer:
        paths.append(path)
        raise CommandError(f"pod {pod}: it needs get and create on pods/portforward")

    _, problems = collect(monkeypatch, ask=fail)
    assert len(paths) == 1
    assert problems == [f"schedulers/{POD}: pod {POD}: it needs get and create on pods/portforward"]


def test_an_api_server_that_falls_silent_is_not_asked_on_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    real = FakeConnection.get

    def silent(self: FakeConnection, path: str, params: Any = None) -> bytes:
        if path == "/version":
            return real(self, path, params)
        self.paths.append(path)
        raise ConnectionFailed(f"GET {path}: timed out")

    monkeypatch.setattr(FakeConnection, "get", silent)
    _, problems = collect(monkeypatch)
    assert sum("timed out" in line for line in problems) == 3
    assert any("the API server has stopped answering" in line for line in problems)


def test_with_more_secrets_than_can_be_looked_for_nothing_is_written_that_may_have_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = objects()
    variables = [{"name": f"N{number}", "value": f"secret-value-{number}"} for number in range(MOST_SECRETS + 1)]
    served["pods"][0]["spec"]["containers"][0]["env"] = variables
    members, problems = collect(monkeypatch, served, logs={"main": b"secret-value-7\n"})
    assert set(members.contents) == {"README.txt", "problems.txt", "versions.yaml"}
    assert problems == [f"everything: left out, there are more than {MOST_SECRETS} values to redact"]


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
            {"ask": lambda _, path: Answer(200, f"a 1\n{HOSTILE}\nleader-elect={HOSTILE}".encode())},
            f"schedulers/{POD}/flagz.txt",
        ),
        ({"ask": lambda _, path: Answer(503, HOSTILE.encode())}, "problems.txt"),
        ({"logs": {"main": f"line\n{HOSTILE}\n".encode()}}, f"logs/{POD}/main.log"),
    ],
    ids=["objects", "pages", "refusals", "logs"],
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
    assert f"logs/{POD}/main.log (only the end)" in members.contents["README.txt"].decode()


def test_a_line_that_is_not_whole_is_left_out() -> None:
    assert tail(b"one\ntwo\nthree\n", 100, is_cut=False) == b"one\ntwo\nthree\n"
    assert tail(b"one\ntwo\nthree\n", 9, is_cut=False) == b"three\n"
    assert tail(b"one\ntwo\nthr", 100, is_cut=True) == b"one\ntwo\n"
    assert tail(b"a secret in a very long line", 9, is_cut=False) == b""


@pytest.mark.parametrize(
    ("name", "safe"),
    [("../../etc/passwd", "_.._etc_passwd"), ("", "_"), ("..", "_"), ("a\nb", "a_b"), ("a;b$(c)", "a_b__c_")],
)
def test_names_of_files_lead_nowhere(name: str, safe: str) -> None:
    assert safe_name(name) == safe
    assert len(safe_name(name + "x" * 1000)) <= 120


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
    assert f"configuration {name}: not read: '{name}' cannot be the name of an object" in problems
    assert "configurations/config.yaml" in members.contents


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
            send(handler, FakeConnection(served, {}).get(path, {"container": "main"}))
        except Exception:
            send(handler, b"{}", 404)

    with service() as api:
        api.answer = answer
        file = tmp_path / "bundle.tar.gz"
        arguments = ["bundle", "-n", NAMESPACE, "--kubeconfig", str(kubeconfig(tmp_path, api.url)), "--file", str(file)]
        done = CliRunner().invoke(app.build(arguments), [*arguments, "--since", "1h"])
        logs = [path for path in api.paths if "/log?" in path]
    assert (done.exit_code, done.stdout) == (0, f"{file}\n")
    assert "pods: 1 file, " in done.stderr
    assert "problems: 1, see problems.txt in the archive" in done.stderr
    assert all("limitBytes=" in path for path in logs)
    assert [("sinceSeconds=3600" in path) for path in logs if "previous" not in path] == [True, True]
    with tarfile.open(file) as archive:
        assert any(name.endswith("/pods/secondary-scheduler-1-a.yaml") for name in archive.getnames())


def test_a_cluster_that_does_not_answer_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    arguments = ["bundle", "--kubeconfig", str(kubeconfig(tmp_path, "http://127.0.0.1:9"))]
    done = CliRunner().invoke(app.build(arguments), [*arguments, "--file", str(tmp_path / "b.tar.gz")])
    assert isinstance(done.exception, CommandError)
    assert done.exception.code == 1
    assert [file.name for file in tmp_path.iterdir()] == ["kubeconfig"]


def test_the_readme_lists_every_field_that_may_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    members, _ = collect(monkeypatch)
    text = members.contents["README.txt"].decode()
    assert "  .spec.containers[].env[].name\n" in text
    assert "env[].value" not in everything(members)
