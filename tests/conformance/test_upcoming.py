"""`make next`: what two kube-schedulers say of themselves, and what differs in decisions, as a list of work."""

import pytest

from devcluster.errors import BinaryError
from devcluster.toolchain import upcoming as toolchain
from tests.conformance import upcoming
from tests.conformance.upcoming import Differences, changed, fields, flags, gates, kinds_of, metrics

USAGE = """
Misc flags:

      --config string            The path to the configuration file.
  -h, --help                     help for kube-scheduler
      --feature-gates mapStringBool   A set of key=value pairs. Options are:
                                      kube:AllAlpha=true|false (ALPHA - default=false)
                                      kube:NewOne=true|false (BETA - default=true)
"""
MISMATCH = """MISMATCH seed 7, features taints, profile default, pod p0
  {}
  again: python -m tests.conformance --replay 7 --features taints
  pod: {{}}
"""


def test_gates_and_flags_are_read_from_the_help() -> None:
    assert gates(USAGE) == {"AllAlpha": "ALPHA, off", "NewOne": "BETA, on"}
    assert list(flags(USAGE)) == ["config", "help", "feature-gates"]


def test_a_configuration_is_compared_field_by_field() -> None:
    profile = {"plugins": {"score": {"enabled": [{"name": "A", "weight": 2}]}}, "schedulerName": "x"}
    assert dict(fields({"profiles": [profile], "parallelism": 16})) == {
        "profiles[0].plugins.score.enabled[A].name": "A",
        "profiles[0].plugins.score.enabled[A].weight": "2",
        "profiles[0].schedulerName": "x",
        "parallelism": "16",
    }


def test_metrics_are_compared_by_type_and_labels() -> None:
    text = (
        '# TYPE scheduler_a counter\nscheduler_a{queue="x"} 1\n# TYPE go_b gauge\ngo_b 1\n'
        '# TYPE scheduler_c histogram\nscheduler_c_bucket{le="1"} 1\nscheduler_c_sum 1\nscheduler_c_count 1\n'
    )
    assert metrics(text) == {"scheduler_a": "counter by queue", "scheduler_c": "histogram by nothing"}


def test_what_is_new_gone_and_changed_is_told_apart() -> None:
    old, new = {"a": "1", "b": "1", "c": "1"}, {"b": "2", "c": "1", "d": "1"}
    assert list(changed(old, new)) == ["- a: 1", "  b: 1 -> 2", "+ d: 1"]


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        (
            "score of NodeResourcesFit on n1: real 3, ours 4\n  total of n1: real 3, ours 4",
            {"score of NodeResourcesFit"},
        ),
        (
            "outcome: real unschedulable (0/1 nodes (x), 3 y), ours bound (n1)",
            {"outcome: real unschedulable, ours bound"},
        ),
        ("feasible for ours only: n1, n2", {"feasible for ours only"}),
        ("choice: real chose n1, ours would choose one of ['n2']", {"choice"}),
        (
            "message:\n  real '0/2 nodes are available: 1 Too many pods, 1 new words. preemption: x'\n"
            "  ours '0/2 nodes are available: 1 Too many pods, 1 old words. preemption: x'",
            {"message: new words", "message: old words"},
        ),
        (
            "message:\n  real '0/2 nodes are available: 2 Too many pods.'\n"
            "  ours '0/2 nodes are available: 1 Too many pods.'",
            {"message: other numbers"},
        ),
    ],
)
def test_a_mismatch_is_listed_by_what_differs(line: str, kinds: set[str]) -> None:
    assert kinds_of(MISMATCH.format(line)) == kinds


def test_the_list_begins_with_what_differs_most_and_names_cases() -> None:
    differences = Differences()
    for name in ("a", "b", "c", "d"):
        differences.add(name, [MISMATCH.format("feasible for ours only: n1")])
    differences.add("e", [MISMATCH.format("preemption: real on n1, ours on n2")])
    assert list(differences.lines()) == [
        "  feasible for ours only: 4 cases, such as a; b; c",
        "  preemption: 1 cases, such as e",
    ]


def test_without_a_newer_version_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(toolchain, "published", lambda _: ["v1.37.0", "v1.37.9"])
    assert upcoming.main(["--above", "1.37.0"]) == 0
    assert capsys.readouterr().out == "nothing newer than 1.37.0\n"


def test_a_missing_module_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(*_: object) -> None:
        raise BinaryError("the Go module proxy lacks k8s.io/new v0.99.0")

    monkeypatch.setattr(toolchain, "published", lambda _: ["v1.99.0"])
    monkeypatch.setattr(toolchain, "build", build)
    assert upcoming.main(["--above", "1.37.0"]) == 1
    assert capsys.readouterr().err == "error: the Go module proxy lacks k8s.io/new v0.99.0\n"
