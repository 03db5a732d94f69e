"""The benchmark of a tenant's attacks: what they consist of, and how the victims' waits are judged."""

from __future__ import annotations

import math

import msgspec
import pytest

from benchmarks.attack.attacks import ATTACKS, costly_expression
from benchmarks.attack.command import main
from benchmarks.attack.figures import AttackedPod, Turn, Waits, complaints, table, well_after
from benchmarks.attack.objects import TENANT
from benchmarks.attack.trial import TENANT_MAY_CREATE
from benchmarks.harness.contestants import OURS, PEER
from benchmarks.harness.objects import path_of

NODES = 5
MAX_BYTES = 1536 << 10
"""Of an object in etcd."""


@pytest.mark.parametrize("name", ATTACKS)
def test_a_tenant_may_create_what_an_attack_consists_of(name: str) -> None:
    attack = ATTACKS[name]
    items = list(attack.objects(NODES))
    items += [attack.pod(number) for number in (0, 1, 99)] if attack.pod else []
    assert items
    for item in items:
        assert item["metadata"]["namespace"] == TENANT
        assert any(
            path_of(item).endswith(f"{version}/namespaces/{TENANT}/{each}") for version, each in TENANT_MAY_CREATE
        )
        assert len(msgspec.json.encode(item)) < MAX_BYTES


@pytest.mark.parametrize("name", ATTACKS)
def test_what_the_cluster_has_belongs_to_no_tenant(name: str) -> None:
    assert not [item for item in ATTACKS[name].cluster(NODES) if "namespace" in item["metadata"]]


def test_selectors_of_devices_are_as_long_as_they_may_be_and_no_two_are_equal() -> None:
    expressions = {costly_expression(number, true=number % 2 == 0) for number in range(320)}
    assert len(expressions) == 320
    assert max(map(len, expressions)) <= 10 << 10


def test_a_victim_that_was_never_bound_has_waited_until_the_end() -> None:
    waits = Waits.of([AttackedPod(1.0, 1.25), AttackedPod(2.0, None), AttackedPod(3.0, 3.5)], end=10.0)
    assert waits == Waits(victims=3, unbound=1, p50=0.5, p99=8.0, most=8.0)
    assert math.isnan(Waits.of([], end=10.0).p50)


@pytest.mark.parametrize(
    ("victims", "seconds"),
    [
        pytest.param([AttackedPod(9.0, 9.1), AttackedPod(9.9, 10.1)], 0.0, id="nobody waits"),
        pytest.param([AttackedPod(5.0, 13.0), AttackedPod(8.0, 14.0)], 4.0, id="the last of those that waited"),
        pytest.param([AttackedPod(10.5, 16.0)], 6.0, id="created right after the attack"),
        pytest.param([AttackedPod(5.0, 12.0), AttackedPod(20.0, 25.0)], 2.0, id="slow for another reason, later"),
        pytest.param([AttackedPod(5.0, 12.0), AttackedPod(9.0, None)], None, id="one is never bound"),
    ],
)
def test_all_is_well_when_the_last_pod_that_waited_for_the_attack_is_bound(
    victims: list[AttackedPod], seconds: float | None
) -> None:
    assert well_after(victims, 10.0) == seconds


def turn(contestant: str = OURS, seconds: float = 0.1, **changes: object) -> Turn:
    waits = Waits(100, 0, seconds, seconds, seconds)
    values = {
        "attack": "gang",
        "contestant": contestant,
        "number": 1,
        "load": 1.0,
        "before": waits,
        "during": waits,
        "after": waits,
        "lost": 0,
        "attackers": 1,
        "creating": 1.0,
        "deleting": 1.0,
        "probes": 90,
        "failed_probes": [],
        "ended": False,
        "well_after": 0.0,
        "mib_before": 70.0,
        "mib": 90.0,
        **changes,
    }
    return Turn(**values)  # type: ignore[arg-type]


def test_ours_may_be_twice_as_slow_as_the_peer_or_take_half_a_second() -> None:
    assert complaints([turn(seconds=0.5)]) == []
    assert complaints([turn(seconds=1.9), turn(PEER, seconds=1.0)]) == []
    assert complaints([turn(PEER, seconds=9.0), turn("old", seconds=9.0)]) == []
    assert complaints([turn(seconds=2.1), turn(PEER, seconds=1.0)]) == [
        f"gang, round 1: {figure} {phase} is 2.10 s, at most 2.00 wanted"
        for phase in ("during", "after")
        for figure in ("p50", "p99")
    ]
    # The peer of another round says nothing.
    assert len(complaints([turn(seconds=0.9), turn(PEER, seconds=1.0, number=2)])) == 4


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"failed_probes": [3.1, 4.1]}, "/livez failed 2 times of 90"),
        ({"ended": True}, "the process has ended"),
        ({"well_after": 5.1}, "well 5.1 s after the attack's pods were gone, at most 5 wanted"),
        ({"well_after": None}, "not well when the measurement ended, at most 5 s after the attack's pods wanted"),
        ({"during": Waits.of([], 1.0)}, "p50 during is nan s, at most 18.00 wanted"),
    ],
)
def test_what_else_is_not_good_enough(changes: dict[str, object], complaint: str) -> None:
    assert f"gang, round 1: {complaint}" in complaints([turn(**changes), turn(PEER, seconds=9.0)])


def test_the_table_has_a_row_per_contestant_and_as_many_cells_as_headings() -> None:
    rows = list(table([turn(PEER), turn(failed_probes=[1.0], well_after=None)], {PEER: "Go"}))
    assert len({row.count("|") for row in rows}) == 1
    assert [row.split(" | ")[1] for row in rows[2:]] == ["Go", "ours"]
    assert "| 1 of 90 | never |" in rows[3]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--attack", "charm"], "invalid choice: 'charm'"),
        (["--nodes", "0"], "at least one node"),
        (["--before", "/x/peer"], "need names that differ, also from ours, peer and null"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert complaint in capsys.readouterr().err


def test_every_attack_says_what_it_exploits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == list(ATTACKS)
    assert all(attack.exploits for attack in ATTACKS.values())
