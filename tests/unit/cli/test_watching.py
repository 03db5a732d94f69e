"""`--watch`: what is written on a terminal and elsewhere, and when it ends."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from secondary_scheduler.cli import app, watching
from secondary_scheduler.cli.errors import CommandError, ExitCode, Interrupted
from secondary_scheduler.cli.watching import redrawn, show_repeatedly


class Looks:
    """Texts or errors, one look after another; then the user's Ctrl-C."""

    def __init__(self, *looks: str | CommandError) -> None:
        self._looks = list(looks)

    def __call__(self) -> str:
        if not self._looks:
            raise Interrupted
        look = self._looks.pop(0)
        if isinstance(look, CommandError):
            raise look
        return look


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses, which take no time here."""
    pauses: list[float] = []
    monkeypatch.setattr(watching.time, "sleep", pauses.append)
    return pauses


def test_elsewhere_than_on_a_terminal_one_follows_another(
    capsys: pytest.CaptureFixture[str], slept: list[float]
) -> None:
    with pytest.raises(Interrupted):
        show_repeatedly(Looks("one\n", "two\n"), 7.0)
    assert capsys.readouterr().out == "one\ntwo\n"
    assert slept == [7.0, 7.0]


@pytest.mark.usefixtures("slept")
def test_a_look_that_fails_is_reported_and_the_next_may_succeed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Interrupted):
        show_repeatedly(Looks("one\n", CommandError("the API server is away"), "two\n"), 1.0)
    captured = capsys.readouterr()
    assert captured.out == "one\ntwo\n"
    assert captured.err == "secondary-scheduler: the API server is away\n"


def test_a_first_look_that_fails_ends_it() -> None:
    with pytest.raises(CommandError):
        show_repeatedly(Looks(CommandError("no such cluster")), 1.0)


@pytest.mark.usefixtures("slept")
def test_on_a_terminal_the_last_is_replaced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching.sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(Interrupted):
        show_repeatedly(Looks("one\n", CommandError("away")), 1.0)
    captured = capsys.readouterr()
    assert captured.out == "\x1b[2J\x1b[Hone\x1b[K\n\x1b[J\x1b[Haway\x1b[K\n\x1b[J"
    assert captured.err == ""


def test_what_does_not_fit_is_cut_so_that_nothing_scrolls() -> None:
    text = redrawn("\n".join([*("abcdefgh" for _ in range(9)), "end"]), columns=5, rows=6)
    assert text == "\x1b[H" + "abcd…\x1b[K\n" * 4 + "… 6 more lines"[:4] + "…\x1b[K\n\x1b[J"
    assert text.count("\n") < 6
    assert redrawn("a\nb", 80, 24) == "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"


@pytest.mark.parametrize("words", [["status", "--interval", "3"], ["top", "nodes", "--interval", "3"]])
def test_an_interval_needs_a_watch(words: list[str]) -> None:
    done = CliRunner().invoke(app.build(words), words)
    assert isinstance(done.exception, CommandError)
    assert done.exception.code is ExitCode.USAGE
