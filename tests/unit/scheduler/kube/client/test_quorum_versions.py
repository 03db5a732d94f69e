"""What versions of quorum reads and writes say about the past of a store."""

from __future__ import annotations

import pytest

from scheduler.kube.client.etcdrestore import QuorumVersions
from scheduler.kube.model import ResourceVersion
from tests.support.clock import Clock


def followed(*versions: str, every: float = 2.0) -> tuple[QuorumVersions, Clock]:
    clock = Clock()
    seen = QuorumVersions(clock)
    for version in versions:
        seen.follow(ResourceVersion(version))
        clock.now += every
    return seen, clock


def contradiction(seen: QuorumVersions, version: str) -> str:
    return seen.contradiction(ResourceVersion(version))


@pytest.mark.parametrize("version", ["215", "216", "2150"])
def test_what_is_as_new_or_newer_can_follow(version: str) -> None:
    seen, _ = followed("200", "210", "215")
    assert contradiction(seen, version) == ""


def test_what_is_older_cannot() -> None:
    seen, _ = followed("200", "210", "215")
    assert contradiction(seen, "206") == "is at version 206 after 215"


def test_nothing_contradicts_a_first_answer() -> None:
    assert contradiction(QuorumVersions(), "206") == ""


@pytest.mark.parametrize(("former", "latest"), [("abc", "1"), ("200", ""), ("", "200")])
def test_versions_that_are_no_numbers_contradict_nothing(former: str, latest: str) -> None:
    seen, _ = followed(former)
    assert contradiction(seen, latest) == ""


def test_a_bumped_revision_rises_faster_than_a_store_is_written() -> None:
    seen, _ = followed("200", "210", "215")
    assert contradiction(seen, "1000000208") == (
        "is at version 1000000208 2 s after 215, as if etcd's revision had been bumped"
    )


def test_a_long_silence_explains_a_rise() -> None:
    seen, clock = followed("200", "210", "215")
    clock.now += 100_000
    assert contradiction(seen, "100000208") == ""


def test_a_store_whose_versions_are_times_is_not_taken_for_bumped() -> None:
    second = 1_000_000_000
    seen, clock = followed(*(str(second * (1_700_000_000 + 2 * number)) for number in range(3)))
    assert contradiction(seen, str(second * 1_700_000_006)) == ""
    clock.now += 3600
    assert contradiction(seen, str(second * 1_700_003_606)) == ""


def test_the_first_rise_is_not_judged() -> None:
    seen, _ = followed("200")
    assert contradiction(seen, "1000000208") == ""


def test_after_a_contradiction_the_count_begins_anew() -> None:
    seen, clock = followed("200", "210", "215")
    seen.restart(ResourceVersion("206"))
    clock.now += 2
    assert contradiction(seen, "207") == ""
    assert contradiction(seen, "205") == "is at version 205 after 206"
