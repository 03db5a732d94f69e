"""`secondary-scheduler completion`: prints a shell's script; `__complete` answers it, and knows all commands.

The answers are in the protocol of cobra's programs, which kubectl speaks, too: a line per completion, after a tab its
description, and last `:` and a number: 4 where files must not be completed, 0 where they may.
"""

from __future__ import annotations

import enum
import inspect
import sys
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from secondary_scheduler.cli.output import examples

BASH = """\
# bash completion of secondary-scheduler. Once: source <(secondary-scheduler completion bash)
_secondary_scheduler() {
  local line directive=4
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in
      :*) directive="${line#:}" ;;
      *) COMPREPLY+=("${line%%$'\\t'*}") ;;
    esac
  done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [ "$directive" = 0 ]; then
    compopt -o default 2>/dev/null
  fi
}
complete -F _secondary_scheduler secondary-scheduler
"""
ZSH = """\
#compdef secondary-scheduler
# zsh completion of secondary-scheduler. Once: source <(secondary-scheduler completion zsh)
_secondary_scheduler() {
  local line directive=4
  local -a values
  for line in "${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case "$line" in
      :*) directive="${line#:}" ;;
      *$'\\t'*) values+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}") ;;
      ?*) values+=("${line//:/\\\\:}") ;;
    esac
  done
  (( ${#values} )) && _describe -V values values
  [[ "$directive" == 0 ]] && _files
}
if [ "${funcstack[1]}" = "_secondary_scheduler" ]; then
  _secondary_scheduler "$@"
else
  compdef _secondary_scheduler secondary-scheduler
fi
"""
FISH = """\
# fish completion of secondary-scheduler. Once: secondary-scheduler completion fish | source
function __secondary_scheduler_complete
  set -l words (commandline -opc)
  set -l last (commandline -ct)
  for line in ($words[1] __complete -- $words[2..-1] "$last" 2>/dev/null)
    switch $line
      case ':0'
        __fish_complete_path "$last"
      case ':*'
      case '*'
        echo $line
    end
  end
end
complete -c secondary-scheduler -f -a '(__secondary_scheduler_complete)'
"""
KUBECTL = """\
#!/bin/sh
# Completion of `kubectl secondary-scheduler`: save it as kubectl_complete-secondary_scheduler, executable, on the PATH.
exec secondary-scheduler __complete -- "$@"
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH, "kubectl": KUBECTL}


NO_FILES, FILES = 4, 0
_TEXT_WIDTH = 80
_HAS_KUBECTL_OPTIONS = "status"
"""A command that has the options of kubectl."""


class Completions(NamedTuple):
    """What the last word may become; `files`: the shell may complete names of files."""

    values: list[tuple[str, str]]
    files: bool = False

    def text(self) -> str:
        """The answer to a shell."""
        lines = [f"{value}\t{' '.join(help_text.split())[:_TEXT_WIDTH]}".rstrip() for value, help_text in self.values]
        return "".join(f"{line}\n" for line in [*lines, f":{FILES if self.files else NO_FILES}"])


def main() -> None:
    """Answer kubectl, which passes the words after `kubectl secondary-scheduler`."""
    sys.stdout.write(complete(sys.argv[1:]).text())


def complete(words: Sequence[str]) -> Completions:
    """Find the completions of the last of a command line's words (without the program's name); it may be empty."""
    from secondary_scheduler.cli.app import KUBECTL_OPTIONS, split_kubectl_options

    ahead, behind = split_kubectl_options(words or [""])
    if not behind:
        # No command yet. What these options take is the same for each that has them.
        ahead, behind = [], [_HAS_KUBECTL_OPTIONS, *ahead]
    *before, last = behind
    command, rest = _command(before)
    rest = [*ahead, *rest]
    if getattr(command, "commands", None) and "/" in last:
        command = _resolved(command, last)
    if command is None:
        return Completions([])
    options = {
        name: parameter
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("-")
    }
    if last.startswith("--") and "=" in last:
        name, _, begun = last.partition("=")
        parameter = options.get(name)
        call = _call(command, rest)
        completions = _values(call, parameter, begun) if parameter is not None else Completions([])
        return Completions([(f"{name}={value}", text) for value, text in completions.values], completions.files)
    if rest and rest[-1] in options and _takes_value(options[rest[-1]]):
        return _values(_call(command, rest[:-1]), options[rest[-1]], last)
    if last.startswith("-"):
        if not before:
            parameters = _command([_HAS_KUBECTL_OPTIONS])[0].params
            options |= {
                name: parameter for parameter in parameters for name in parameter.opts if name in KUBECTL_OPTIONS
            }
        described = sorted((name, parameter.help or "") for name, parameter in options.items())
        return Completions([(name, text) for name, text in described if name.startswith(last)])
    if commands := getattr(command, "commands", None):
        named = ((name, sub.get_short_help_str(_TEXT_WIDTH)) for name, sub in commands.items() if not sub.hidden)
        return Completions([(name, text) for name, text in named if name.startswith(last)])
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    return _values(_call(command, rest), arguments[0], last) if arguments else Completions([])


def _command(words: Sequence[str]) -> tuple[Any, list[str]]:
    """The command that the words name, None where there is none of that name, and the words after its name."""
    import typer.main

    from secondary_scheduler.cli.app import build

    command: Any = typer.main.get_command(build(words))
    rest = list(words)
    while rest and (commands := getattr(command, "commands", None)):
        name = next((word for word in rest if not word.startswith("-")), None)
        if name is None:
            break
        if name not in commands:
            return None, rest
        rest = rest[rest.index(name) + 1 :]
        command = commands[name]
    return command, rest


def _resolved(group: Any, word: str) -> Any:
    """The command that takes a word such as `deployment/web` in place of a command's name; None where none does."""
    import click

    try:
        return group.resolve_command(click.Context(group), [word])[1]
    except click.UsageError:
        return None


def _takes_value(parameter: Any) -> bool:
    return not (getattr(parameter, "is_flag", False) or getattr(parameter, "count", False))


def _values(call: Any, parameter: Any, begun: str) -> Completions:
    values = [(str(item.value), item.help or "") for item in parameter.shell_complete(call, begun)]
    return Completions(values, Path in _kinds(call.command, parameter) or parameter.name in _FILE_PARAMETERS)


def _call(command: Any, words: Sequence[str]) -> Any:
    """What the words before the last one say, as far as they can be read: which cluster, which namespace."""
    try:
        return command.make_context(command.name, list(words), resilient_parsing=True)
    except Exception:  # half a command line
        return command.make_context(command.name, [], resilient_parsing=True)


def _kinds(command: Any, parameter: Any) -> list[type]:
    """The classes of a parameter's annotation: what typer makes of them differs from version to version."""
    annotation = typing.get_type_hints(inspect.unwrap(command.callback)).get(parameter.name)
    return [kind for kind in (annotation, *typing.get_args(annotation)) if isinstance(kind, type)]


_FILE_PARAMETERS = frozenset({"files", "source", "snapshot", "more", "load", "pod"})
"""Those that take `-`, too, and so are texts."""


_EXAMPLES = examples(
    "completion bash > /etc/bash_completion.d/secondary-scheduler",
    "completion zsh > ~/.zfunc/_secondary-scheduler",
    "completion fish > ~/.config/fish/completions/secondary-scheduler.fish",
    "completion kubectl > ~/.local/bin/kubectl_complete-secondary_scheduler",
)


class Shell(enum.StrEnum):
    """Whose script is printed."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    KUBECTL = "kubectl"


def register(parent: typer.Typer) -> None:
    """Add the command `completion`."""
    parent.command("completion", epilog=_EXAMPLES)(completion)


def register_answers(parent: typer.Typer) -> None:
    """Add the hidden command that the scripts call."""
    parent.command("__complete", hidden=True, context_settings={"ignore_unknown_options": True})(answer)


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell; kubectl: for `kubectl secondary-scheduler`.")],
) -> None:
    """Print a shell's completion script.

    The script for kubectl is a program of its own: pip installs it beside `kubectl-secondary_scheduler`.
    """
    typer.echo(SCRIPTS[shell], nl=False)


def answer(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Print the completions of the last word."""
    typer.echo(complete(words or []).text(), nl=False)
