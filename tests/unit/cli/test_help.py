"""The help of every command: nothing cut, and examples that the command accepts."""

from __future__ import annotations

import inspect
import shlex
import typing
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from secondary_scheduler.cli import app


def commands() -> dict[str, Any]:
    """Every command and subcommand of this distribution by its words."""
    root: Any = typer.main.get_command(app.build([]))
    by_words = {}
    for name in app.COMMANDS:
        command = root.commands[name]
        by_words[name] = command
        for sub, nested in getattr(command, "commands", {}).items():
            by_words[f"{name} {sub}"] = nested
    return by_words


COMMANDS = commands()


def shown_help(name: str, columns: int) -> str:
    words = [*name.split(), "--help"]
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(app.build(words), words)
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_nothing_is_cut(monkeypatch: pytest.MonkeyPatch, name: str, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = shown_help(name, columns)
    assert "…" not in text
    assert not [line for line in text.splitlines() if line.endswith("...") and "Usage" not in line]
    words = text.split()
    for parameter in COMMANDS[name].params if name else ():
        for option in (option for option in parameter.opts if option.startswith("--")):
            assert any(word.strip(",") == option for word in words), option


def kind_of(name: str, parameter: Any) -> Any:
    """What a parameter is annotated with."""
    return typing.get_type_hints(inspect.unwrap(COMMANDS[name].callback))[parameter.name]


WRITES_DOCUMENTS = {"snapshot", "render"}
"""They have no table."""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_form_of_the_output_has_the_same_values_everywhere(name: str) -> None:
    for parameter in COMMANDS[name].params:
        if "-o" in parameter.opts:
            choices = {str(choice) for choice in kind_of(name, parameter)}
            assert choices >= ({"json", "yaml"} if name in WRITES_DOCUMENTS else {"table", "wide", "json", "yaml"})


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_for_a_configuration_takes_a_stack_file_and_one_for_a_stack_its_name(name: str) -> None:
    for parameter in COMMANDS[name].params:
        if "--config" in parameter.opts:
            assert "KubeSchedulerConfiguration, ConfigMap or stack file" in " ".join(parameter.help.split())
        if "--stack" in parameter.opts:
            assert kind_of(name, parameter) is str


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_ends_with_examples_that_it_accepts(name: str) -> None:
    _, heading, text = shown_help(name, 120).partition("\n  Examples:\n")
    assert heading
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines
    for line in lines:
        words = shlex.split(line.partition(" | ")[0].partition(" > ")[0])
        program, *arguments = words
        assert program == "secondary-scheduler"
        assert " ".join(arguments).startswith(name.split()[0])
        grouped = " ".join(arguments[:2]) in COMMANDS
        command = COMMANDS[" ".join(arguments[:2])] if grouped else COMMANDS[arguments[0]]
        rest = arguments[2:] if grouped else arguments[1:]
        command.make_context(name, list(rest))
