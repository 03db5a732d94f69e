"""Live schedulers of several checkouts, without starting them."""

import pytest

from benchmarks.checkouts import UNITS, main
from benchmarks.engines import table
from benchmarks.race.contestants import OURS


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--before", "/a/old", "--before", "/b/old"], "--before: the directories need names that differ"),
        (["--lives", "2"], "at least 3 lives"),
        (["--scenario", "TargetLoadPacking"], "a scenario without a watcher"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert complaint in capsys.readouterr().err


def test_every_figure_of_a_life_has_its_line() -> None:
    life = dict.fromkeys(UNITS, 100.0)
    lines = list(table([{OURS: life, "old": life}] * 3, UNITS))
    assert [line.split()[:2] for line in lines] == [[figure, name] for figure in UNITS for name in (OURS, "old")]
