"""The engines of several checkouts, in turns."""

import pytest

from benchmarks.engines import main, table
from benchmarks.race.contestants import OURS


def test_each_checkout_is_measured_against_ours_in_the_same_round() -> None:
    def figures(placing: float) -> dict[str, float]:
        return {"placing": placing, "imports": 100.0, "rss": 50.0}

    lines = list(table([{OURS: figures(ours), "old": figures(2 * ours)} for ours in (100.0, 200.0, 400.0)]))
    assert lines[0] == "placing  ours                    200.0 (100.0 to 400.0, least 100.0) us per pod"
    assert lines[1].startswith("placing  old                     400.0 (200.0 to 800.0, least 200.0) us per pod, ")
    assert lines[1].endswith(", 2.000 (95 %: 2.000 to 2.000) of ours")


def test_an_engine_of_this_checkout_places_pods_and_imports_the_daemon(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nodes", "20", "--count", "20", "--pairs", "3"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in output] == [["placing", OURS], ["imports", OURS], ["rss", OURS]]
    assert all(float(line.split()[2]) > 0 for line in output)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--before", "/a/old", "--before", "/b/old"], "--before: the directories need names that differ"),
        (["--pairs", "2"], "--pairs, --imports: at least 3"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert complaint in capsys.readouterr().err
