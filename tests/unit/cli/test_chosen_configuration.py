"""Which configuration decides where no option names one: what the snapshot holds, else what is installed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.config import load_configuration
from scheduler.kube.client import ClientConfig
from secondary_scheduler.cli import connecting, snapshotfile
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.installedconfigurations import running_configurations, running_documents
from secondary_scheduler.cli.snapshotoptions import InstalledPlace, SnapshotRequest
from secondary_scheduler.cli.ui.reading import read_page_model
from secondary_scheduler.clustersnapshot.reading import SnapshotObject
from secondary_scheduler.clusterstatus import installations
from secondary_scheduler.views.pagemodels import PageModel
from tests.support.simulating import CONFIGURATION, Bench, Result, node, pod, run
from tests.unit.cli.fakeapi import FakeConnection
from tests.unit.cli.status import installation as made
from tests.unit.cli.status.installation import NAMESPACE

SERVER = "https://api.example.com:6443"
SCHEDULER = f"{NAMESPACE}/secondary-scheduler"
SECRET = "hunter2-canary"
EVERYWHERE = "/apis/apps/v1/deployments"
TWO = [node("n1", cpu="2"), node("n2", cpu="8"), pod("a")]
SECOND = CONFIGURATION.replace("secondary-scheduler", "second")


class ClosedConnection(FakeConnection):
    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def cluster(
    monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Any], refused: Collection[str] = ()
) -> ClosedConnection:
    """Let the kubeconfig name a cluster that answers so."""
    connection = ClosedConnection(answers, refused)
    config = ClientConfig(server=SERVER)
    for module in (connecting, snapshotfile):
        monkeypatch.setattr(module, "load_connection", lambda kubeconfig, context: config)
    monkeypatch.setattr(installations, "SyncConnection", lambda *_, **__: connection)
    return connection


def running(text: str = CONFIGURATION) -> dict[str, Any]:
    return made.installation(config_map={"data": {"config.yaml": text}})


def stored_by(messages: list[str]) -> list[SnapshotObject]:
    return running_documents(running_configurations(ClientConfig(server=SERVER), messages.append), messages.append)


def taken(monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[list[SnapshotObject], list[str]]:
    messages: list[str] = []
    cluster(monkeypatch, {**running(text), EVERYWHERE: []})
    return stored_by(messages), messages


def stored(text: Any = CONFIGURATION, scheduler: str = SCHEDULER) -> dict[str, Any]:
    namespace, name = scheduler.split("/")
    metadata = {"namespace": namespace, "name": name}
    return {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "SchedulerConfiguration",
        "metadata": metadata,
        "configuration": text,
    }


def on(bench: Bench, *objects: dict[str, Any], command: str = "simulate", more: tuple[str | Path, ...] = ()) -> Result:
    snapshot = bench.write("cluster.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return run(*command.split(), "--snapshot", snapshot, *more)


# What a snapshot gets -------------------------------------------------------------------------------------------------

FULL = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{qps: 70}}
extenders:
- urlPrefix: https://extender.example.com
  filterVerb: filter
  nodeCacheCapable: true
  enableHTTPS: true
  tlsConfig: {{certData: Y2VydA==, keyData: {"a" * 8}}}
profiles:
- schedulerName: mine
  percentageOfNodesToScore: 40
  plugins:
    score: {{enabled: [{{name: TargetLoadPacking, weight: 7}}], disabled: [{{name: "*"}}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args:
      targetUtilization: 55
      metricProvider: {{type: Prometheus, address: "http://prometheus:9090", token: {SECRET}}}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{{matchExpressions: [{{key: token-pool, operator: In, values: [batch]}}]}}]
"""


def test_a_snapshot_gets_the_running_configuration_whole_but_for_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    documents, messages = taken(monkeypatch, FULL)
    (document,) = documents
    content = json.loads(document.data)
    assert content["metadata"] == {"namespace": NAMESPACE, "name": "secondary-scheduler"}
    assert messages == []
    assert SECRET not in document.data.decode()
    assert "a" * 8 not in document.data.decode()
    expected = yaml.safe_load(FULL)
    expected["profiles"][0]["pluginConfig"][0]["args"]["metricProvider"]["token"] = "[secret]"
    expected["extenders"][0]["tlsConfig"]["keyData"] = "W3NlY3JldF0="
    kept = yaml.safe_load(content["configuration"])
    (profile,), (wanted,) = kept["profiles"], expected["profiles"]
    assert profile["plugins"]["score"]["enabled"] == wanted["plugins"]["score"]["enabled"]
    assert {**profile, "plugins": None} == {**wanted, "plugins": None}
    assert kept["clientConnection"]["qps"] == 70
    assert kept["extenders"][0]["filterVerb"] == "filter"
    assert kept["extenders"][0]["tlsConfig"].items() >= expected["extenders"][0]["tlsConfig"].items()


@pytest.mark.parametrize("text", [FULL, made.CONFIGURATION, CONFIGURATION])
def test_what_is_stored_decides_as_the_original(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (document,), _ = taken(monkeypatch, text)
    kept, original = (
        load_configuration(each, source="c", allow_token_in_config_map=True)
        for each in (json.loads(document.data)["configuration"], text)
    )
    assert [profile.summary() for profile in kept.profiles] == [profile.summary() for profile in original.profiles]


@pytest.mark.parametrize(
    "entry",
    [
        "{name: Mine, args: {apiKey: hunter2-canary}}",
        "{name: PodTopologySpread, args: {hunter2-canary: x}}",
    ],
)
def test_a_configuration_with_a_part_that_nobody_knows_is_left_out_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    image = made.deployment(image="registry.example.com/mine:1")
    text = f"{CONFIGURATION}  pluginConfig: [{entry}]\n"
    messages: list[str] = []
    answers = made.installation(deployments=[image], config_map={"data": {"config.yaml": text}}, crs=[])
    cluster(monkeypatch, {**answers, EVERYWHERE: []})
    assert stored_by(messages) == []
    (line,) = messages
    assert line.startswith(f"left out the configuration of {SCHEDULER}: ")


def test_who_may_not_read_the_configuration_is_told_which_right_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    cluster(monkeypatch, {**running(), EVERYWHERE: []}, [made.CONFIG_MAP])
    assert stored_by(messages) == []
    assert messages == [
        f"left out the configurations of schedulers: profiles and plugins: this user needs to get configmaps in "
        f"namespace {NAMESPACE}"
    ]


@pytest.mark.parametrize(("flag", "kinds"), [((), ["SchedulerConfiguration"]), (("--no-configuration",), [])])
def test_a_flag_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flag: tuple[str, ...], kinds: list[str]
) -> None:
    cluster(monkeypatch, running())
    monkeypatch.setattr(snapshotfile, "read_snapshot", lambda *_: [])
    done = run("snapshot", "--file", tmp_path / "cluster.json", *flag)
    assert done.code == 0, done.err
    items = json.loads((tmp_path / "cluster.json").read_text())["items"]
    assert [item["kind"] for item in items] == kinds


# Which decides --------------------------------------------------------------------------------------------------------


def test_what_the_snapshot_holds_decides_and_is_named(bench: Bench) -> None:
    done = on(bench, *TWO, stored())
    assert done.code == 0, done.err
    assert "default/a" in done.out
    assert done.err.splitlines()[0] == (
        f"configuration: of the scheduler {SCHEDULER}, as the snapshot has it; --config names another"
    )


def test_an_option_goes_before_the_snapshot(bench: Bench) -> None:
    done = on(bench, *TWO, stored(SECOND), more=("--config", bench.config))
    assert "default/a" in done.out
    assert "configuration: " not in done.err


def test_of_several_one_has_to_be_named(bench: Bench) -> None:
    objects = [*TWO, stored(), stored(SECOND, "apps/second")]
    refused = on(bench, *objects)
    assert (refused.code, refused.out) == (2, "")
    assert f"the snapshot has several schedulers ({SCHEDULER}, apps/second); name one with --scheduler" in refused.err
    assert "default/a" not in on(bench, *objects, more=("--scheduler", "apps/second")).out
    assert "default/a" in on(bench, *objects, more=("--scheduler", SCHEDULER)).out
    assert "the snapshot has no scheduler a/b (" in on(bench, *objects, more=("--scheduler", "a/b")).err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (3, "configuration: expected str, got int; give --config"),
        (None, "configuration: expected str, got null; give --config"),
        ("x" * (1 << 20) + "x", "the file has 1048577 characters; a ConfigMap holds at most 1048576; give --config"),
        ("[" * 2_000, "nested too deeply"),
        ("kind: Pod\x1b[31m", "configuration"),
        ("a: &a [x,x]\nb: &b [*a,*a]\n", "configuration"),
        (CONFIGURATION + "hostile: {}\n", "hostile: unknown field"),
    ],
)
def test_a_stored_configuration_is_checked_as_any_file(bench: Bench, text: Any, message: str) -> None:
    done = on(bench, *TWO, stored(text))
    assert (done.code, done.out) == (4, "")
    assert message in done.err
    assert "\x1b" not in done.err
    assert "Traceback" not in done.err


def test_a_snapshot_without_one_takes_that_of_the_cluster(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    cluster(monkeypatch, running())
    done = on(bench, *TWO)
    assert "default/a" in done.out
    assert f"configuration: of the scheduler {SCHEDULER}, as {SERVER} has it; --config names another" in done.err


def test_a_scheduler_in_any_other_namespace_is_found(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    deployment = made.deployment("mine")
    deployment["metadata"]["namespace"] = "apps"
    config_map = {"data": {"config.yaml": SECOND}}
    answers = {EVERYWHERE: [deployment], "/api/v1/namespaces/apps/configmaps/active": config_map}
    leases = "/apis/coordination.k8s.io/v1/namespaces/apps/leases"
    cluster(monkeypatch, {made.DEPLOYMENTS: [], made.LEASES: [], leases: [], **answers})
    assert "configuration: of the scheduler apps/mine, as " in on(bench, *TWO).err


@pytest.mark.parametrize(
    "command", ["simulate", "plan --new {config}", "explain queue", "explain pod a", "explain node n1"]
)
def test_without_any_configuration_nothing_is_decided(bench: Bench, command: str) -> None:
    done = on(bench, *TWO, command=command.format(config=bench.config))
    assert (done.code, done.out) == (4, "")
    assert "the snapshot holds no configuration, and no cluster is asked for one: " in done.err
    assert f"; give {'--old' if 'plan' in command else '--config'}" in done.err


def test_a_cluster_without_a_scheduler_has_no_configuration(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    cluster(monkeypatch, {EVERYWHERE: [], made.DEPLOYMENTS: [], made.LEASES: []})
    assert f"the snapshot holds no configuration, and {SERVER} has no scheduler; give --config" in on(bench, *TWO).err


def test_who_may_not_read_it_is_told_so_by_every_command(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    cluster(monkeypatch, {**running(), EVERYWHERE: []}, [made.CONFIG_MAP])
    done = on(bench, *TWO)
    assert (done.code, done.out) == (1, "")
    assert f"this user needs to get configmaps in namespace {NAMESPACE}; or give --config" in done.err


@pytest.mark.parametrize("command", ["simulate", "plan --new {config}", "rebalance plan", "explain queue"])
def test_who_may_read_nothing_is_told_every_right_and_an_option_that_the_command_has(
    monkeypatch: pytest.MonkeyPatch, bench: Bench, command: str
) -> None:
    cluster(monkeypatch, {made.LEASES: []}, [made.CRS, made.CRS_OF_NAMESPACE, made.DEPLOYMENTS, EVERYWHERE])
    done = on(bench, *TWO, command=command.format(config=bench.config))
    assert (done.code, done.out) == (1, "")
    wide = "this user needs to list secondaryschedulers in all namespaces; name one with --scheduler NAMESPACE/NAME"
    assert wide in done.err
    assert f"this user needs to list secondaryschedulers in namespace {NAMESPACE}; " in done.err
    assert "this user needs to list deployments in " in done.err
    assert "--namespace" not in done.err.replace("--scheduler NAMESPACE", "")


@pytest.mark.parametrize(
    "command",
    ["simulate", "plan --new {config}", "rebalance plan", "explain queue", "explain pod a", "explain node n1"],
)
def test_every_command_takes_what_the_snapshot_holds(bench: Bench, command: str) -> None:
    done = on(bench, *TWO, stored(), command=command.format(config=bench.config))
    assert done.code == 0, done.err
    assert f"configuration: of the scheduler {SCHEDULER}, as the snapshot has it" in done.err


def test_plan_compares_with_what_the_snapshot_holds(bench: Bench) -> None:
    done = on(bench, *TWO, stored(SECOND), command=f"plan --new {bench.config}", more=("-o", "json"))
    document = json.loads(done.out)
    assert (document["old"]["schedulerNames"], document["new"]["schedulerNames"]) == (
        ["second"],
        ["secondary-scheduler"],
    )
    assert document["old"]["source"] == SCHEDULER


# The version of the cluster -------------------------------------------------------------------------------------------

STACK = """\
config:
  secondary-scheduler:schedulerImage: registry.example.com/secondary-scheduler/kube-scheduler:0.2.0
  secondary-scheduler:installMode: direct
"""
VERSION = {"apiVersion": "secondary-scheduler.io/v1", "kind": "ClusterVersion", "metadata": {"name": "cluster"}}
AT_137 = {**VERSION, "gitVersion": "v1.37.0"}


@pytest.mark.parametrize("command", ["simulate --config {}", "plan --old {} --new {}", "rebalance plan --config {}"])
def test_a_stack_file_decides_as_the_version_that_the_snapshot_names(
    bench: Bench, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = bench.write("before.yaml", STACK)
    monkeypatch.chdir(Path(__file__).parents[3])
    done = on(bench, *TWO, AT_137, command=command.replace("{}", str(file)))
    assert done.code == 0, done.err
    assert "secondary-scheduler decides as kube-scheduler 1.37: the cluster's version" in done.err


def test_a_version_that_the_stack_names_stays_and_the_difference_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = bench.write("before.yaml", STACK + "  secondary-scheduler:cluster: {kubernetesVersion: '1.35'}\n")
    monkeypatch.chdir(Path(__file__).parents[3])
    done = on(bench, *TWO, AT_137, more=("--config", file))
    assert "decides as kube-scheduler 1.35: its kubernetesVersion, though the cluster is 1.37" in done.err


# The pages ------------------------------------------------------------------------------------------------------------


def page_model(bench: Bench, *objects: dict[str, Any], place: InstalledPlace | None = None) -> PageModel:
    snapshot = bench.write("cluster.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return read_page_model(
        SnapshotRequest([str(snapshot)], place=place or InstalledPlace(command="ui")), lambda _: None
    )


def test_the_pages_decide_with_what_the_cluster_runs_and_say_so(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    cluster(monkeypatch, running())
    shown = page_model(bench, *TWO)
    assert shown.configuration.scheduler_names == ("secondary-scheduler",)
    assert [decision.pod for decision in shown.run.decisions] == ["default/a"]
    assert any(line.startswith(f"configuration: of the scheduler {SCHEDULER}") for line in shown.remarks)


def test_the_pages_show_the_default_profile_where_there_is_no_scheduler(
    monkeypatch: pytest.MonkeyPatch, bench: Bench
) -> None:
    assert page_model(bench, *TWO).configuration.scheduler_names == ("default-scheduler",)
    cluster(monkeypatch, {EVERYWHERE: [], made.DEPLOYMENTS: [], made.LEASES: []})
    shown = page_model(bench, *TWO, place=InstalledPlace(context="prod"))
    assert shown.configuration.scheduler_names == ("default-scheduler",)
    assert any("kube-scheduler's default profile, as the snapshot holds no" in line for line in shown.remarks)


def test_a_context_that_cannot_be_asked_is_no_reason_for_the_default_profile(bench: Bench) -> None:
    with pytest.raises(CommandError, match="no cluster is asked for one"):
        page_model(bench, *TWO, place=InstalledPlace(context="typo"))
