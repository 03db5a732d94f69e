"""The comment: below the limit whatever happens, fair to every stack, and nothing in it is taken for Markdown."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from secondary_scheduler.cli.fleet.report import LIMIT, comment, fair_shares, marker
from secondary_scheduler.cli.fleet.results import (
    GateCheck,
    Operation,
    ResourceChange,
    StackOutcome,
    StackResult,
)
from tests.support.selection import tries

DETAILS = re.compile(r"<details><summary>([^:]*): .*?</details>", re.DOTALL)


def result(name: str, lines: int = 0, outcome: StackOutcome = StackOutcome.CHANGES, reason: str = "") -> StackResult:
    resources = [ResourceChange("update", "kubernetes:core/v1:ConfigMap", f"map-{index}") for index in range(lines)]
    return StackResult(name, "rest", "east", outcome, 1.0, reason, {"update": lines}, resources)


def test_a_small_comment_has_table_and_details_of_every_stack() -> None:
    text = comment(Operation.PREVIEW, [result("a", 2), result("b", 0, StackOutcome.FAILED, "it broke")])
    assert text.startswith(marker(Operation.PREVIEW))
    assert "### Fleet preview: 2 stacks: 1 failed, 1 with changes" in text
    assert "| a | rest | east | ✏️ changes | 2 update | 1.0 s | - |" in text
    assert "| b | rest | east | ❌ failed | - | 1.0 s | it broke |" in text
    assert DETAILS.findall(text) == ["a"]
    assert "update  kubernetes:core/v1:ConfigMap map-1" in text


def test_what_does_not_fit_is_cut_from_the_long_ones_and_that_is_said() -> None:
    text = comment(Operation.PREVIEW, [result("long-a", 5000), result("short", 20), result("long-b", 9000)])
    assert len(text) <= len(text.encode()) <= LIMIT < 65_536
    blocks = {match[1]: match[0] for match in DETAILS.finditer(text)}
    assert set(blocks) == {"long-a", "short", "long-b"}
    assert "Cut:" not in blocks["short"]
    assert re.search(r"Cut: \d+ of 5000 lines are shown", blocks["long-a"])
    assert re.search(r"Cut: \d+ of 9000 lines are shown", blocks["long-b"])
    assert abs(len(blocks["long-a"]) - len(blocks["long-b"])) < 200
    assert len(text.encode()) > LIMIT * 0.95


def test_a_thousand_stacks_still_make_a_comment_and_no_failure_is_lost() -> None:
    stacks = [result(f"stack-{index:04}", 50, reason="r" * 400) for index in range(1000)]
    stacks[900] = result("the-bad-one", 1, StackOutcome.FAILED, "it broke")
    text = comment(Operation.UP, stacks)
    assert len(text.encode()) <= LIMIT
    assert "| the-bad-one | rest | east | ❌ failed |" in text
    assert re.search(r"and \d+ more stacks", text)
    assert re.search(r"Details of \d+ of 1000 stacks do not fit", text)


def test_text_of_others_stays_text() -> None:
    odd = "a | b <script> @team `code` [x](y) & *z*\nsecond"
    with_fences = StackResult(
        "a", "rest", "<b>", StackOutcome.FAILED, 1.0, odd, {}, (), ["```", "</details>", "@team"], {}, ()
    )
    text = comment(Operation.UP, [with_fences])
    row = next(line for line in text.splitlines() if line.startswith("| a "))
    assert row.count("|") - row.count("\\|") == 8
    assert "<script>" not in row
    assert "@" not in row
    assert "\\`code\\`" in row
    fence = re.search(r"^(`+)text$", text, re.MULTILINE)
    assert fence is not None
    assert len(fence[1]) == 4
    assert text.rstrip().endswith("````\n</details>")


def test_the_checks_that_a_gate_failed_come_first() -> None:
    gate = [GateCheck("Available", True, "yes"), GateCheck("LoadDataFresh", False, "Stale")]
    failed = StackResult("a", "rest", "c", StackOutcome.FAILED, 1.0, "not healthy", {}, (), ["said"], {}, gate)
    text = comment(Operation.UP, [failed])
    assert "```text\ngate: LoadDataFresh: Stale\nsaid\n```" in text


@pytest.mark.parametrize("limit", [400, 2000, 10_000])
@settings(max_examples=tries(30))
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=12),
    reason=st.text(max_size=600),
    message=st.text(max_size=300),
)
def test_the_limit_holds_for_anything(limit: int, sizes: list[int], reason: str, message: str) -> None:
    stacks = [
        StackResult(
            f"s{index}",
            "rest",
            "c",
            StackOutcome.FAILED,
            1.0,
            reason,
            {"update": size},
            [ResourceChange("update", "T", "näme")] * size,
            [message],
        )
        for index, size in enumerate(sizes)
    ]
    text = comment(Operation.PREVIEW, stacks, limit)
    assert len(text.encode()) <= limit
    assert len(re.findall(r"^<details>", text, re.MULTILINE)) <= len(stacks)


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 1000), min_size=1), st.integers(0, 3000))
def test_shares_are_fair(wanted: dict[str, int], room: int) -> None:
    shares = fair_shares(wanted, room)
    assert sum(shares.values()) <= room
    assert all(shares[name] <= wanted[name] for name in wanted)
    cut = [name for name in wanted if shares[name] < wanted[name]]
    if cut:
        least = min(shares[name] for name in cut)
        assert max(shares.values()) <= least + len(wanted), "nobody has more than one that was cut"
        assert sum(shares.values()) > room - len(wanted), "nothing is left over"
