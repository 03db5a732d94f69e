"""Over what the load is averaged that commands read: as the scheduler does it, unless the user names a window."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from scheduler.config import Configuration, load_configuration
from scheduler.kube.client import ClientConfig
from secondary_scheduler.cli import loadoptions, snapshotfile
from secondary_scheduler.cli.installedconfigurations import Running
from secondary_scheduler.cli.storedconfigurations import InstalledConfiguration
from secondary_scheduler.clustersnapshot.measuring import LoadOrigin, as_scheduled
from secondary_scheduler.clustersnapshot.reading import SnapshotObject
from secondary_scheduler.simulation.documents import Entry
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import InputReport, ObjectPlace
from tests.support.simulating import Bench, load, node, pod, run
from tests.unit.scheduler.load.fakes import FakeService, send, service

SERVER = "https://api.example.com:6443"
NODE = json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}).encode()


def text_of(window: str, more: str = "") -> str:
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins:
    score: {{enabled: [{{name: TargetLoadPacking}}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {{metricProvider: {{type: Prometheus, address: "http://prometheus:9090"}}}}
  - name: SecondarySchedulerOptions
    args: {{load: {{window: {window}{more}}}}}
"""


def averaging(window: str, more: str = "") -> Configuration:
    return load_configuration(text_of(window, more), source=f"apps/{window}")


def origin(url: str = "http://prometheus:9090", window: str | None = None) -> LoadOrigin:
    return LoadOrigin(url, None, None, None, window)


@pytest.fixture
def prometheus() -> Iterator[FakeService]:
    """One that answers every query with the load of one node."""
    with service() as fake:
        sample = b'{"metric":{"instance":"n1"},"value":[1000,"0.5"]}'

        def answer(handler: BaseHTTPRequestHandler) -> None:
            send(handler, b'{"data":{"resultType":"vector","result":[' + sample + b"]}}")

        fake.answer = answer
        yield fake


def queries(fake: FakeService) -> str:
    return urllib.parse.unquote_plus(" ".join(fake.paths))


# Which window ---------------------------------------------------------------------------------------------------------


def chosen(named: LoadOrigin, *configurations: Configuration) -> tuple[str | None, list[str]]:
    lines: list[str] = []
    read = as_scheduled(named, {each.source: each for each in configurations}, lines.append)
    return read.window or (read.scheduler.window if read.scheduler is not None else None), lines


def test_the_window_is_that_of_the_scheduler_and_is_named() -> None:
    assert chosen(origin(), averaging("1m")) == (
        "1m",
        ["load: averaged over 1m, as apps/1m has it; --window names another"],
    )


def test_a_window_that_the_user_names_stays_and_the_schedulers_is_named_beside_it() -> None:
    assert chosen(origin(window="5m"), averaging("1m")) == (
        "5m",
        ["load: averaged over 5m, as --window says; apps/1m averages over 1m"],
    )


def test_of_several_schedulers_the_first_counts_and_the_others_are_named() -> None:
    window, lines = chosen(origin(), averaging("1m"), averaging("30m"))
    assert (window, lines) == (
        "1m",
        ["load: averaged over 1m, as apps/1m has it, though apps/30m averages over 30m; --window names another"],
    )


def test_without_a_scheduler_that_averages_the_default_is_named() -> None:
    assert chosen(origin())[1] == [
        "load: averaged over 15m, as no configuration of a scheduler says; --window names another"
    ]


# What is asked --------------------------------------------------------------------------------------------------------


def test_a_live_load_is_asked_with_the_window_the_queries_and_the_label_of_the_scheduler(
    prometheus: FakeService,
) -> None:
    lines: list[str] = []
    report = InputReport(lines.append)
    objects = RecordedObjects(report)
    objects.add([Entry(ObjectPlace(SERVER, 1), "v1", "Node", NODE)])
    configuration = averaging("7m", ", queries: {cpuAverage: 'my_cpu[7m]'}")
    loadoptions.add_load(objects, origin(prometheus.url), configuration, SERVER, report)
    (document,) = objects.of("NodeLoad")
    assert json.loads(bytes(document.entry.data))["window"]["duration"] == "7m"
    assert "my_cpu[7m]" in queries(prometheus)
    assert lines[0] == "load: averaged over 7m, as apps/7m has it; --window names another"


@pytest.mark.parametrize("with_configuration", [True, False])
def test_a_snapshot_is_measured_as_the_installed_scheduler_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, prometheus: FakeService, with_configuration: bool
) -> None:
    running: Running = [(InstalledConfiguration("apps/mine", text_of("7m")), averaging("7m"))]
    monkeypatch.setattr(snapshotfile, "running_configurations", lambda config, say: running)
    monkeypatch.setattr(snapshotfile, "read_snapshot", lambda config, say: [SnapshotObject("v1", "Node", NODE)])
    lines: list[str] = []
    file = tmp_path / "cluster.json"
    snapshotfile.take_snapshot(
        ClientConfig(server=SERVER),
        origin(prometheus.url),
        file,
        as_yaml=False,
        say=lines.append,
        with_configuration=with_configuration,
    )
    items = {item["kind"]: item for item in json.loads(file.read_text())["items"]}
    assert items["NodeLoad"]["window"]["duration"] == "7m"
    assert "[7m]" in queries(prometheus)
    assert lines[0] == "load: averaged over 7m, as apps/mine has it; --window names another"
    assert ("SchedulerConfiguration" in items) is with_configuration


# What is read from a file ---------------------------------------------------------------------------------------------


def decided(tmp_path: Path, duration: str) -> str:
    bench = Bench(tmp_path)
    config = bench.write("averaging.yaml", text_of("1m"))
    document = json.loads(load({"n1": 40}, end=1000, timestamp=1000))
    document["window"]["duration"] = duration
    measured = bench.write("load.json", json.dumps(document))
    objects = {"apiVersion": "v1", "kind": "List", "items": [node("n1"), pod("a")]}
    snapshot = bench.write("cluster.json", json.dumps(objects))
    return run("simulate", "--config", config, "--snapshot", snapshot, "--load", measured).err


def test_a_simulation_names_the_window_of_its_load(tmp_path: Path) -> None:
    err = decided(tmp_path, "60s")
    assert "load: averaged over 60s\n" in err
    assert "may decide otherwise" not in err


def test_a_simulation_says_where_its_load_is_averaged_otherwise(tmp_path: Path) -> None:
    err = decided(tmp_path, "15m")
    assert "decided with load averaged over 15m, where " in err
    assert " has 1m: the scheduler may decide otherwise (snapshot --window 1m)" in err


def test_a_window_that_is_none_is_not_shown(tmp_path: Path) -> None:
    assert "averaged over" not in decided(tmp_path, "15m\x1b[31m<b>")
