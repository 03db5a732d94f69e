"""The harness itself: it must notice what it is there to notice."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from scheduler.framework import Code, CycleState, NodeView, PodInfo, RowArray, Verdicts, reject
from scheduler.plugins.nodename import NodeName
from tests.conformance import profiles, runner
from tests.conformance.case import BOUND, ERROR, GATED, UNSCHEDULABLE, Answer, Asked, Case
from tests.conformance.compare import differences, report
from tests.conformance.features import FEATURES, available
from tests.conformance.generator import choose, generate
from tests.conformance.ours import Ours
from tests.conformance.schedulerlog import LogState, parse

REAL = Answer(
    BOUND,
    feasible=frozenset({"a", "b"}),
    scores={"a": {"Fit": 40, "Taint": 300}, "b": {"Fit": 50, "Taint": 300}},
    totals={"a": 340, "b": 350},
    best=frozenset({"b"}),
    node="b",
)
NOWHERE = Answer(UNSCHEDULABLE, message="0/2 nodes are available: 2 Insufficient cpu.")


def test_equal_answers_have_no_differences() -> None:
    assert differences(REAL, REAL) == []
    assert differences(NOWHERE, NOWHERE) == []


def test_a_score_that_differs_is_reported_with_plugin_and_node() -> None:
    wrong = dataclasses.replace(REAL, scores={**REAL.scores, "a": {"Fit": 41, "Taint": 300}})
    assert differences(REAL, wrong) == ["score of Fit on a: real 40, ours 41"]


def test_a_plugin_that_only_one_side_scored_with_is_reported() -> None:
    wrong = dataclasses.replace(REAL, scores={**REAL.scores, "a": {"Fit": 40}})
    assert differences(REAL, wrong) == ["score of Taint on a: real 300, ours none"]


def test_a_total_that_differs_is_reported() -> None:
    wrong = dataclasses.replace(REAL, totals={"a": 340, "b": 351})
    assert differences(REAL, wrong) == ["total of b: real 350, ours 351"]


def test_a_node_that_only_one_side_finds_feasible_is_reported() -> None:
    wrong = dataclasses.replace(REAL, feasible=frozenset({"b", "c"}))
    assert differences(REAL, wrong) == [
        "feasible for the real scheduler only: a",
        "feasible for ours only: c",
    ]


def test_a_choice_outside_the_best_is_reported_in_both_directions() -> None:
    wrong = dataclasses.replace(REAL, best=frozenset({"a"}), node="a")
    assert differences(REAL, wrong) == [
        "choice: real chose b, ours would choose one of ['a']",
        "choice: ours chose a, the real scheduler would choose one of ['b']",
    ]


def test_another_outcome_is_reported() -> None:
    assert differences(REAL, NOWHERE) == [
        "outcome: real bound (b), ours unschedulable (0/2 nodes are available: 2 Insufficient cpu.)"
    ]
    assert differences(NOWHERE, Answer(GATED))
    assert differences(NOWHERE, Answer(ERROR, message=NOWHERE.message))


def test_scores_of_a_single_feasible_node_are_not_asked_for() -> None:
    real = Answer(BOUND, feasible=frozenset({"a"}), best=frozenset({"a"}), node="a")
    ours = dataclasses.replace(real, scores={"a": {"Fit": 1}}, totals={"a": 1})
    assert differences(real, ours) == []


def test_messages_must_agree_word_for_word() -> None:
    [difference] = differences(NOWHERE, dataclasses.replace(NOWHERE, message=NOWHERE.message.replace("2 I", "1 I")))
    assert "2 Insufficient" in difference
    assert "1 Insufficient" in difference
    assert differences(NOWHERE, dataclasses.replace(NOWHERE, message=NOWHERE.message[:-1]))


def test_victims_must_be_some_that_ours_could_choose() -> None:
    real = dataclasses.replace(NOWHERE, nominated="a", victims=("default/x",))
    [difference] = differences(real, NOWHERE)
    assert "default/x" in difference
    assert differences(NOWHERE, real)
    either = (("b", ("default/y",)), ("a", ("default/x",)))
    assert (
        differences(real, dataclasses.replace(NOWHERE, nominated="b", victims=("default/y",), evictions=either)) == []
    )


def _asked_of_ourselves(case: Case) -> list[tuple[Asked, Answer]]:
    pods = [_as_stored(pod, case.profile) for pod in case.pods]
    return [(Asked(pod, case.objects, Answer(BOUND)), Ours().ask(pod, case.objects)) for pod in pods]


def _as_stored(pod: dict[str, object], profile: str) -> dict[str, object]:
    stored: dict[str, object] = json.loads(json.dumps(pod))
    stored["spec"]["schedulerName"] = f"conformance-{profile}"  # type: ignore[index]
    return stored


def test_a_deliberately_wrong_plugin_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    case = generate(5, ["plain"])
    before = _asked_of_ourselves(case)
    assert any(answer.outcome == BOUND for _, answer in before)

    def nothing_but_the_first(
        self: NodeName, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray
    ) -> Verdicts | None:
        return reject(rows != rows[0], Code.UNSCHEDULABLE, "node(s) displeased a wrong plugin")

    monkeypatch.setattr(NodeName, "filter", nothing_but_the_first)
    after = _asked_of_ourselves(case)
    for (question, right), (_, wrong) in zip(before, after, strict=True):
        differing = differences(right, wrong)
        assert differing
        text = report(case, question, wrong, differing)
        assert "seed 5" in text
        assert "features plain" in text
        assert json.loads(text.partition("case: ")[2]) == json.loads(json.dumps(case.to_json()))


def test_a_seed_always_gives_the_same_case() -> None:
    chosen, profile = choose(3, list(FEATURES), ["default", "most"])
    assert choose(3, list(FEATURES), ["default", "most"]) == (chosen, profile)
    assert generate(3, chosen, profile) == generate(3, chosen, profile)
    assert generate(3, chosen, profile) != generate(4, chosen, profile)


@pytest.mark.parametrize("name", list(FEATURES))
def test_every_feature_changes_cases_and_survives_json(name: str) -> None:
    cases = [generate(seed, [name]) for seed in range(12)]
    plain = [generate(seed, []) for seed in range(12)]
    if name != "plain":
        assert any(
            case.objects != bare.objects or case.pods != bare.pods for case, bare in zip(cases, plain, strict=True)
        )
    for case in cases:
        assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case


def test_a_kept_case_is_kept_once_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "REGRESSIONS", tmp_path / "regressions.json")
    runner.REGRESSIONS.write_text("[]\n")
    case = generate(1, ["taints"])
    assert runner.keep([case]) == 1
    assert runner.keep([case]) == 0
    assert runner.regressions() == [case]


LINE = "I1121 15:30:00.123456   77 schedule_one.go:815] "


def test_log_lines_are_read_with_their_quoting() -> None:
    line = parse(LINE + '"Calculated node\'s final score for pod" pod="ns/p" node="n0" score=-5')
    assert line is not None
    assert line.message == "Calculated node's final score for pod"
    assert line.values == {"pod": "ns/p", "node": "n0", "score": "-5"}
    line = parse(LINE + r'"Unable to schedule pod; no fit; waiting" pod="ns/p" err="claim \"x\" not found"')
    assert line is not None
    assert line.values["err"] == 'claim "x" not found'
    assert parse("goroutine 1 [running]:") is None


def test_only_the_first_attempt_of_a_pod_counts() -> None:
    log = LogState()
    for text in (
        '"Attempting to schedule pod" pod="ns/p"',
        '"Plugin scored node for pod" pod="ns/p" plugin="Fit" node="n0" score=90',
        '"Calculated node\'s final score for pod" pod="ns/p" node="n0" score=90',
        '"Successfully bound pod to node" pod="ns/p" node="n0" evaluatedNodes=1 feasibleNodes=1',
        '"Attempting to schedule pod" pod="ns/p"',
        '"Plugin scored node for pod" pod="ns/p" plugin="Fit" node="n0" score=10',
    ):
        log.feed(LINE + text)
    attempt = log.attempts["ns/p"]
    assert attempt.scores == {"n0": {"Fit": 90}}
    assert (attempt.node, attempt.feasible, attempt.done) == ("n0", 1, True)


def test_what_a_version_adds_is_asked_of_it_and_changes_no_case_of_older_ones() -> None:
    have = profiles.implemented()
    older, newer = available(have, 34), available(have, 36)
    assert [name for name in newer if name not in older] == ["resized-pods", "image-volumes", "declared-features"]
    assert [name for name in newer if name in older] == list(older)
    drafted = [generate(seed, ("declared-features",)) for seed in range(10)]
    assert any(
        "declaredFeatures" in item["status"] for case in drafted for item in case.objects if item["kind"] == "Node"
    )
    assert any("restartPolicyRules" in str(pod) for case in drafted for pod in case.pods)
