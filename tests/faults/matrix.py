"""The fault matrix: which tests inject each fault, and what the scenarios measured.

`python -m tests.faults.matrix` rewrites the table of docs/reliability.md, from here and from the recorded results
(`--record` of `python -m tests.faults`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reliability.md"
RESULTS = Path(__file__).parent / "results.jsonl"
CHANCE = Path(__file__).parent / "chance.jsonl"
"""Seeds of `--mix` and `--kill-and-compare`, with what is worth keeping of each."""
BEGIN, END = "<!-- table: python -m tests.faults.matrix -->", "<!-- end of the table -->"
NOT_RUN = "not run"
_OURS_ALONE = "-: a part that is ours alone"
_NOT_ASKED = "not asked: its source of load is tried in 38, 39 and 44"
_LISTWATCH = "tests/unit/scheduler/kube/client/test_listwatch.py::"
_LEASE = "tests/integration/kube/test_lease.py::"
_LOAD = "tests/unit/scheduler/load/"
_PROMETHEUS = "tests/faults/test_prometheus.py::"


@dataclass(frozen=True)
class Row:
    """One fault; `tests` inject it beside the scenarios of its number."""

    number: int
    fault: str
    promise: str
    tests: tuple[str, ...] = ()
    go: str = NOT_RUN
    """Why Go's has no figures, where it has none."""


MATRIX = (
    Row(1, "API server crashes", "I1 I4 I7, one list per kind"),
    Row(2, "API server hangs", "the leader ends before its Lease; I6"),
    Row(
        3, "watch cut inside a JSON line", "goes on from the last version; I7",
        (_LISTWATCH + "test_a_line_cut_in_the_middle_is_dropped_and_comes_again",),
    ),
    Row(
        4, "410 on a watch or a list", "one list, deletions inferred; I7",
        (_LISTWATCH + "test_410_in_either_form_leads_to_one_new_list_that_infers_deletions",),
    ),
    Row(
        5, "watch open but silent", "noticed after 150 s without a word (in the run: 5 s); I4",
        (_LISTWATCH + "test_a_silent_watch_is_resumed_and_relisted_when_it_stays_silent",),
    ),
    Row(
        6, "failover to a stale API server", "older lists refused; I1 I2",
        (_LISTWATCH + "test_a_stale_list_is_refused_for_a_while_and_then_accepted",),
    ),
    Row(
        7, "events twice, again, or missing", "state independent of order; I7",
        (_LISTWATCH + "test_replayed_events_are_not_applied_twice",),
    ),
    Row(8, "Binding applied, answer lost", "counts as bound; I1 I2 I3"),
    Row(9, "Binding refused: another scheduler was first", "its node is adopted; I7"),
    Row(10, "pod deleted or recreated meanwhile", "the namesake is another pod; I1"),
    Row(11, "429 with Retry-After", "obeyed; I8"),
    Row(12, "500, etcd stalls", "outcome looked up; I1 I2"),
    Row(13, "Bindings take 3 s to 35 s", "the room stays promised, others flow; I2"),
    Row(14, "token or client certificate rotates", "read again"),
    Row(15, "right removed", "named, and used again when it is back; I9"),
    Row(
        16, "CA or certificate rotated", "reloaded without a restart",
        ("tests/integration/operator/test_operator.py::test_a_serving_certificate_is_used_as_soon_as_it_exists",),
    ),
    Row(17, "etcd out of space", "backs off, recovers; I8"),
    Row(18, "connections break all the time", "no event lost; I8"),
    Row(
        19, "leader killed", "followed within Lease and retry; I1 I4 I6",
        (_LEASE + "test_a_killed_leader_is_replaced_when_its_lease_expires",),
    ),
    Row(
        20, "zombie leader", "writes nothing and ends; I6",
        (_LEASE + "test_a_frozen_leader_exits_on_waking_and_leaves_its_successor_alone",),
    ),
    Row(
        21, "wall clock moves an hour", "retries and leadership go on; I4 I6",
        ("tests/faults/test_clocks.py::test_a_pod_in_backoff_is_retried_though_the_wall_clock_is_set",),
    ),
    Row(
        22, "Lease deleted, stolen, junk in it", "the old leader ends; nobody crashes; I6",
        (_LEASE + "test_a_leader_whose_lease_was_given_to_another_stops_leading",),
    ),
    Row(23, "SIGTERM with Bindings under way", "they end, the Lease is given back, exit 0"),
    Row(
        24, "event loop blocked past the renew deadline", "the Lease is renewed by a thread of its own; I6",
        ("tests/unit/scheduler/kube/test_lease.py::"
         "test_a_deadline_that_passes_while_the_renewing_thread_is_stuck_is_noticed",),
        "-: no event loop; a process that stands still is fault 20",
    ),
    Row(25, "memory limit hit", "restarts clean"),
    Row(
        26, "read-only root, no room in /tmp", "runs",
        ("tests/integration/image/test_image.py::test_user_is_a_number_other_than_root_and_nothing_can_be_written",),
    ),
    Row(27, "no file descriptors", "waits and goes on; I4"),
    Row(28, "race with the default scheduler for last slots", "our own pods never collide; I2"),
    Row(29, "node goes with assumed pods on it", "nothing is left behind; I7"),
    Row(30, "allocatable drops below used", "closed for that resource only"),
    Row(31, "crowd of pods that fit nowhere", "holds up none that fits; I4"),
    Row(32, "churn for a day", "memory does not grow; I8"),
    Row(33, "pod changed while it waits", "placed by its latest spec; I3"),
    Row(
        34, "gangs: two for one room, one that never fits", "whole or not at all; I5",
        ("tests/integration/scheduler/test_gangs.py::test_of_two_gangs_for_one_room_one_runs_and_then_the_other",),
    ),
    Row(
        35, "PodGroup after its pods; kind absent", "noticed at once",
        ("tests/integration/scheduler/test_gangs.py::"
         "test_without_the_kind_everything_else_is_scheduled_and_the_gang_when_it_comes",),
    ),
    Row(
        36, "hostile objects", "parked with a reason, nobody held up; I4",
        ("tests/integration/scheduler/test_hostile_objects.py::test_nothing_that_is_accepted_stops_the_scheduler",),
    ),
    Row(
        37, "NodeResourceTopology missing or stale", "pessimistic, not stuck",
        ("tests/integration/scheduler/test_numa.py::test_reservations_fingerprints_and_foreign_pods",),
    ),
    Row(38, "Prometheus down", "pods placed without load, and it is said; I9", (_PROMETHEUS + "test_it_is_down",)),
    Row(
        39, "NaN, infinite, negative, empty, malformed", "scores stay in range; absent is not 0; it costs that sample",
        (_PROMETHEUS + "test_half_of_the_nodes_missing",
         _PROMETHEUS + "test_malformed_samples_cost_themselves_and_are_said_once",
         _LOAD + "test_answers.py::test_what_is_wrong_in_a_sample_costs_that_sample"),
    ),
    Row(
        40, "samples an hour old, or of the year 2058", "marked stale",
        (_PROMETHEUS + "test_samples_an_hour_old", _PROMETHEUS + "test_samples_of_the_year_2058"),
        "-: knows no age of a sample; fault 38 shows it",
    ),
    Row(
        41, "slow drip, huge body, 16 MiB of `[]`, redirect to a file, a host or a path, login page",
        "bounded; the interpreter is held 0.1 s at most; no redirect is followed, and no credential goes elsewhere",
        (_PROMETHEUS + "test_a_harmful_answer",
         _PROMETHEUS + "test_a_redirect_is_not_followed_and_the_token_goes_nowhere",
         _PROMETHEUS + "test_a_redirect_to_a_file_is_not_followed",
         _LOAD + "test_redirects.py::test_nobody_goes_where_a_source_sends_its_readers",
         _LOAD + "test_answers.py::"
         "test_the_interpreter_is_not_held_by_the_largest_answer_that_is_admitted"),
        _NOT_ASKED,
    ),
    Row(
        42, "wrong CA, expired certificate, 401", "closed, with the reason; recovers",
        (_PROMETHEUS + "test_a_certificate_of_another_authority", _PROMETHEUS + "test_a_certificate_that_has_expired",
         _PROMETHEUS + "test_a_token_that_is_refused_and_then_rotated"),
        _NOT_ASKED,
    ),
    Row(
        43, "series by IP, twice per node, of no node", "matched by name, then address; else reported",
        (_PROMETHEUS + "test_series_by_address_and_two_for_one_node",
         "tests/integration/cli/test_preflight.py::"
         "test_a_label_that_names_no_node_is_reported_with_the_right_label"),
        _NOT_ASKED,
    ),
    Row(44, "restart under load", "the same ranking; I11"),
    Row(
        45, "bad configuration", "refused with its path; the last good one kept",
        ("tests/integration/operator/test_operator.py::"
         "test_a_bad_configuration_leaves_the_scheduler_alone_and_its_fix_recovers",),
        _OURS_ALONE,
    ),
    Row(
        46, "ConfigMap edited or deleted by hand", "no restart without a change of content",
        ("tests/integration/operator/test_operator.py::test_only_a_change_of_content_rolls_the_scheduler",
         "tests/integration/operator/test_operator.py::test_a_deleted_config_map_leaves_the_scheduler_alone"),
        _OURS_ALONE,
    ),
    Row(
        47, "pulumi up killed; objects in the way", "the next run completes",
        ("tests/e2e/test_engine_faults.py::"
         "test_an_engine_that_was_killed_is_followed_by_one_that_completes_its_work",
         "tests/e2e/test_engine_faults.py::"
         "test_after_a_refusal_in_the_middle_the_next_run_completes_and_doubles_nothing"),
        _OURS_ALONE,
    ),
    Row(
        48, "canary secret in every credential slot", "in no output; I10",
        ("tests/e2e/test_fleet.py::test_no_secret_is_shown_wherever_it_turns_up",
         "tests/integration/scheduler/test_metric_credentials.py::"
         "test_a_foreign_server_named_in_the_config_map_gets_no_token"),
    ),
    Row(
        49, "etcd put back to a copy", "what it has is known within 30 s; I2 I4 I7",
        ("tests/integration/etcd_restore/test_components.py::"
         "test_operator_rebalancer_and_page_know_what_a_restored_etcd_has",),
    ),
    Row(50, "preemption storm; 200 nominated pods", "a victim each, promised room is kept, others flow; I1 I2 I4"),
    Row(51, "PodGroup whose minMember flaps at 10 Hz", "bound only when it says so; I5"),
    Row(52, "nodes flap at 10 Hz under 1,000 waiting pods", "hold up none that fits; I3 I4 I7"),
    Row(53, "429 from fair queueing for a minute", "said; no storm; a starved leader is followed; I6 I8 I9"),
    Row(
        54, "webhook refuses Bindings, hangs, sends them elsewhere",
        "quoted; the room is free, or promised while it may be used; I4 I7 I9",
    ),
    Row(55, "pods of 30 kB, 1,000 of them", "memory as for what is read of them; I8"),
    Row(56, "namespace of 1,000 waiting pods deleted", "nothing of it is left, others flow; I4 I7"),
    Row(
        57, "two operators at once on one SecondaryScheduler", "one serves it, and the other says which; it takes over",
        ("tests/integration/operator/test_two_operators.py::"
         "test_an_operator_leaves_alone_what_another_holds_and_takes_it_when_that_is_gone",
         "tests/integration/operator/test_two_operators.py::test_a_replica_that_waits_takes_every_namespace_over"),
        _OURS_ALONE,
    ),
    Row(
        58, "two pulumi up at once; the stack's state lost", "the second says who holds it; what is there is adopted",
        ("tests/e2e/test_engine_faults.py::test_a_stack_that_another_update_holds_says_so_and_by_whom",
         "tests/e2e/test_engine_faults.py::test_a_stack_whose_state_is_lost_adopts_what_is_there_without_a_restart"),
        _OURS_ALONE,
    ),
    Row(59, "API server upgraded, 1.34 to 1.36 and back", "no pod and no leader lost; I1 I4 I6 I7"),
    Row(
        60, "what a terminal obeys, in all that tenants write", "printed harmlessly by plan, bundle, fleet, rebalance",
        ("tests/unit/cli/plan/test_terminal.py::test_names_labels_and_messages_of_objects",
         "tests/unit/cli/bundle/test_contents.py::test_nothing_in_it_and_nothing_said_controls_a_terminal",
         "tests/unit/cli/fleet/test_terminal.py::test_what_an_engine_reports_of_a_cluster_controls_no_terminal",
         "tests/unit/cli/rebalance/test_terminal.py::test_what_tenants_write_controls_no_terminal"),
        _OURS_ALONE,
    ),
    Row(61, "gang of one rack: leader killed, members deleted, racks relabelled", "bound in one rack; I3 I5 I6",
        ("tests/integration/scheduler/test_gangs.py::test_a_gang_killed_half_bound_in_a_rack_is_completed_there_and_later_members_wait_for_it",),
        "-: its gangs know no racks"),
)  # fmt: skip
_GO = ("real", "scheduler-plugins")
_LABELS = {
    "recover_seconds": "all bound after",
    "takeover_seconds": "followed after",
    "ended_seconds": "ended after",
    "slowest_seconds": "slowest pod",
    "placed_seconds": "a pod placed within",
    "said_seconds": "said after",
    "counts_seconds": "load counts again after",
    "known_seconds": "known after",
}


_LATE = "not all bound within"
_COUNTS = {
    "conflicts": "of 40 slots given by both schedulers",
    "misplaced": "of 10 pods on the wrong node",
    "by_old_load": "of 10 pods placed by load that is no longer measured",
    "pods_forgotten": "pods forgotten",
    "bytes_per_pod": "bytes of memory more per pod that came and went",
}


@dataclass(frozen=True)
class Load:
    """Much of everything: a scenario, the seed under which its scale was recorded, and the figures shown."""

    amount: str
    name: str
    figures: dict[str, str]
    seed: int = 1
    flags: str = ""


_HOSTILE = {"recover_seconds": "ordinary pods beside them, s", "memory_more_mib": "MiB of memory more"}
_TERMS = {
    "ordinary_ms": "a decision about an ordinary pod, ms",
    "ordinary_attempt_ms": "an attempt at it, with its Binding, ms",
    "preferred_ms": "about one with 1,000 preferred terms, keys of their own, ms",
    "required_ms": "about one with 1,000 required anti-affinity terms, keys of their own, ms",
    "labels_ms": "about one with 1,000 preferred terms, each meaning another pod, ms",
    "preferred_attempt_ms": "an attempt at the first of these, with its Binding, ms",
    "required_attempt_ms": "at the second, ms",
    "labels_attempt_ms": "at the third, ms",
    "next_ms": "a decision about the next ordinary ones beside those, ms",
    "after_ms": "about ordinary ones when those are gone, ms",
}
LOAD = (
    Load("1,000 affinity terms beside 10,000 pods", "attempt-at-a-thousand-terms", _TERMS, 25, " --scale 25 --seed 25"),
    Load(
        "5,000 pods in one second", "burst-of-pods",
        {"recover_seconds": "all bound after, s", "pods_per_second": "pods a second", "bound": "bound"},
        5, " --scale 5 --seed 5",
    ),
    Load(
        "2,000 pods that fit nowhere", "crowd-that-fits-nowhere",
        {"slowest_seconds": "the slowest of 20 pods that fit, s", "log_bytes": "bytes of log"},
    ),
    Load(
        "nodes that change under 200 pods that wait", "event-storm",
        {"writes_per_change": "Events and conditions a change", "recover_seconds": "a pod that fits, s"},
    ),
    Load("10,000 labels on a pod", "ten-thousand-labels", _HOSTILE),
    Load("15 pods of a mebibyte", "objects-of-a-mebibyte", _HOSTILE),
    Load(
        "5,000 nominated pods", "nominated-pods",
        {"nominated_seconds": "all nominated after, s", "told_seconds": "then all victims deleted after, s",
         "deletions": "deletions that were asked for", "slowest_seconds": "the slowest of 5 others meanwhile, s",
         "recover_seconds": "all bound after the victims' end, s"},
        25, " --scale 25 --seed 25",
    ),
    Load(
        "5,000 running pods of 30 kB", "pods-of-thirty-kilobytes",
        {"ready_seconds": "a start until it is ready, s", "most_resident_mib": "MiB of memory at most"},
        5, " --scale 5 --seed 5",
    ),
    Load(
        "20,000 running pods of 30 kB", "pods-of-thirty-kilobytes",
        {"ready_seconds": "a start until it is ready, s", "most_resident_mib": "MiB of memory at most"},
        20, " --scale 20 --seed 20",
    ),
    Load(
        "100 namespaces with hostile names", "hundred-namespaces",
        {"series_more": "metric series more for 90 of them, beside those of bound pods",
         "recover_seconds": "an ordinary pod beside them, s"},
    ),
)  # fmt: skip


def results() -> list[dict[str, Any]]:
    """What was recorded, the newest of each scenario, kind and seed."""
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else ():
        row = json.loads(line)
        newest[row["name"], row["kind"], row["seed"]] = row
    return list(newest.values())


def summary(rows: Iterable[dict[str, Any]]) -> str:
    """The figures of one fault for one scheduler."""
    rows = list(rows)
    if not rows:
        return NOT_RUN
    parts = []
    for name, label in _LABELS.items():
        values = [row["figures"][name] for row in rows if name in row["figures"]]
        if values:
            is_late = name == "recover_seconds" and any("not bound within" in str(row["violations"]) for row in rows)
            parts.append(f"{_LATE if is_late else label} {max(values):.1f} s")
    twice = [row["figures"]["nodes_given_twice"] for row in rows if "nodes_given_twice" in row["figures"]]
    if twice:
        parts.append(f"{max(twice):.0f} of 60 nodes given by both schedulers")
    for name, label in _COUNTS.items():
        counts = [row["figures"][name] for row in rows if name in row["figures"]]
        if counts:
            parts.append(f"{max(counts):.0f} {label}")
    broken = sorted({text.partition(":")[0] for row in rows for text in row["violations"]})
    over = sum(row["figures"].get("overcommits", 0) for row in rows)
    parts.append(f"broken: {', '.join(broken)}" if broken else "nothing broken")
    return f"{'; '.join(parts)}; {over:.0f} over-commits"


def table(recorded: list[dict[str, Any]]) -> str:
    """The table in Markdown."""
    lines = ["| # | fault | promise | ours | Go's | repeat |", "|---|---|---|---|---|---|"]
    # What was recorded at a scale of its own stands in the table of loads.
    scaled = {(each.name, each.seed) for each in LOAD if each.seed != 1}
    recorded = [each for each in recorded if (each["name"], each["seed"]) not in scaled]
    for row in MATRIX:
        own = [each for each in recorded if each["number"] == row.number and each["kind"] == "ours"]
        go = [each for each in recorded if each["number"] == row.number and each["kind"] in _GO]
        ours = summary(own) if own else ("passes" if row.tests else NOT_RUN)
        repeat = [f"`python -m tests.faults --scenario {row.number}`"] if own else []
        repeat += [f"Go's: `--kind {kind}`" for kind in _GO if any(each["kind"] == kind for each in go)]
        repeat += [f"`{test.rpartition('/')[2]}`" for test in row.tests]
        theirs = summary(go) if go else row.go
        cells = (str(row.number), row.fault, row.promise, ours, theirs, "<br>".join(repeat) or "-")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def load(recorded: list[dict[str, Any]]) -> str:
    """What much of everything costs, in Markdown: the newest result of each seed, which stands for a scale."""
    lines = ["| load | measured | ours | Go's | repeat |", "|---|---|---|---|---|"]
    for each in LOAD:
        rows = {row["kind"]: row["figures"] for row in recorded if (row["name"], row["seed"]) == (each.name, each.seed)}
        command = f"`--scenario {each.name}{each.flags}`"
        for number, (figure, label) in enumerate(each.figures.items()):
            ours, go = (_written(rows.get(kind, {}).get(figure)) for kind in ("ours", "real"))
            first = (each.amount, command) if number == 0 else ("", "")
            lines.append(f"| {first[0]} | {label} | {ours} | {go} | {first[1]} |")
    return "\n".join(lines)


def _written(value: float | None) -> str:
    if value is None:
        return NOT_RUN
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def chance() -> str:
    """How many random mixes and kills were played."""
    rows = [json.loads(line) for line in CHANCE.read_text().splitlines()]
    return "\n\n".join(
        _played(label, [row for row in rows if row["name"] == name])
        for name, label in (("mix", "Random mixes"), ("kill", "Kill and compare"))
    )


def _played(label: str, rows: list[dict[str, Any]]) -> str:
    if not rows:
        return f"{label}: not run."
    seeds = [row["seed"] for row in rows]
    bad = sorted(row["seed"] for row in rows if row["violations"])
    pods, hours = sum(row["bound"] for row in rows), sum(row["seconds"] for row in rows) / 3600
    kills = sum(row.get("kills", 0) for row in rows)
    outcome = f"seeds with a broken promise: {', '.join(map(str, bad))}" if bad else "no promise broken"
    killed = f", {kills:.0f} kills" if kills else ""
    return (
        f"{label}: {len(seeds)} of the seeds {min(seeds)} to {max(seeds)}{killed}, {pods:.0f} pods bound, "
        f"{hours:.1f} hours; {outcome}."
    )


def rendered(page: str) -> str:
    """The page with its table rewritten."""
    recorded = results()
    before, _, rest = page.partition(BEGIN)
    parts = (BEGIN, table(recorded), load(recorded), chance(), END)
    return before + "\n\n".join(parts) + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
    sys.exit(0)
