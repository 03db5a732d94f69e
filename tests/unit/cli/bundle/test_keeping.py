"""The allowlist, field by field: whoever widens it changes `allowlist.txt`, and is asked why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler.catalog import OPTIONS, descriptors
from secondary_scheduler.cli.bundle.keeping import (
    OPERATOR_FLAGS,
    OWN_ANNOTATIONS,
    allowlist,
    command_line,
    is_own_label,
    keep_object,
)
from secondary_scheduler.cli.keptconfiguration import keep_configuration
from secondary_scheduler.operator.options import parse_options
from tests.unit.cli.bundle.installation import CONFIGURATION, objects

LISTED = Path(__file__).with_name("allowlist.txt")


def test_the_allowlist_is_the_one_that_was_agreed_on() -> None:
    kept = [f"{kind} {path}" for kind, paths in allowlist().items() for path in paths]
    assert kept == LISTED.read_text().splitlines()


@pytest.mark.parametrize("word", ["value", "valueFrom", "envFrom", "data", "managedFields", "httpHeaders", "exec"])
def test_no_field_is_listed_that_may_hold_a_secret(word: str) -> None:
    paths = [path for path in LISTED.read_text().split() if re.search(rf"\.{word}(\W|$)", path)]
    assert [path for path in paths if "tolerations[]" not in path] == []


def test_annotations_are_kept_by_name() -> None:
    assert sorted(OWN_ANNOTATIONS) == [
        "secondary-scheduler.io/cache-current",
        "secondary-scheduler.io/cache-current-message",
        "secondary-scheduler.io/cluster-version",
        "secondary-scheduler.io/configuration-hash",
        "secondary-scheduler.io/kubernetes-version",
        "secondary-scheduler.io/kubernetes-version-message",
        "secondary-scheduler.io/load-data-fresh",
        "secondary-scheduler.io/load-data-message",
        "secondary-scheduler.io/nodes-overcommitted",
        "secondary-scheduler.io/nodes-overcommitted-message",
        "secondary-scheduler.io/source",
        "secondary-scheduler.io/unread-resources",
    ]


@pytest.mark.parametrize(
    ("label", "kept"),
    [
        ("app", True),
        ("pod-template-hash", True),
        ("app.kubernetes.io/name", True),
        ("secondary-scheduler.io/instance", True),
        ("team", False),
        ("app.kubernetes.io.example.com/name", False),
        ("example.com/app", False),
    ],
)
def test_labels_are_kept_by_their_domain(label: str, kept: bool) -> None:
    assert is_own_label(label) is kept


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["/bin/kube-scheduler", "--leader-elect=true"], ["/bin/kube-scheduler", "--leader-elect=true"]),
        (["--tls_min_version=VersionTLS12"], ["--tls_min_version=VersionTLS12"]),
        (["-v", "2"], ["-v", "[1 left out]"]),
        (["--password=hunter2", "hunter2"], ["[2 left out]"]),
        (["sh", "-c", "echo hunter2"], ["[3 left out]"]),
        (["-vhunter2"], ["[1 left out]"]),
        ([{"a": "hunter2"}, 5], ["[2 left out]"]),
    ],
)
def test_of_a_command_line_known_programs_and_flags_are_kept(words: list[object], kept: list[str]) -> None:
    assert command_line().keep(words) == kept


def test_the_operator_s_flags_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options(["--help"], {})
    options = set(re.findall(r"^  (--?[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"-h"}
    assert options <= OPERATOR_FLAGS
    assert {"--status-of", "-v"} <= options


def test_a_valid_configuration_is_kept_whole_but_for_its_secrets() -> None:
    kept = keep_configuration(CONFIGURATION)
    assert kept["profiles"][0]["plugins"] == CONFIGURATION["profiles"][0]["plugins"]
    assert kept["clientConnection"] == CONFIGURATION["clientConnection"]
    assert "unknownField" not in kept


@pytest.mark.parametrize("plugin", [each.name for each in descriptors() if each.args_model] + [OPTIONS])
def test_every_plugin_s_args_are_known(plugin: str) -> None:
    entry = {"name": plugin, "args": {"apiVersion": "v", "unknown": "x"}}
    kept = keep_configuration({"profiles": [{"pluginConfig": [entry]}]})
    assert kept == {"profiles": [{"pluginConfig": [{"name": plugin, "args": {"apiVersion": "v"}}]}]}


def test_texts_and_lists_are_bounded() -> None:
    condition = {"type": "t", "message": "x" * 100_000}
    raw = {"metadata": {"name": "n"}, "status": {"conditions": [condition] * 10_000}}
    conditions = keep_object("Deployment", raw)["status"]["conditions"]
    assert len(conditions) == 500
    assert len(conditions[0]["message"]) < 9000


def test_an_object_keeps_what_is_needed_to_understand_it() -> None:
    kept = keep_object("Pod", objects()["pods"][0])
    assert kept["spec"]["nodeName"] == "node-1"
    assert kept["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"] == "it ended"
    assert "podIP" not in kept["status"]
