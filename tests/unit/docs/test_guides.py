"""Checks of the pages that run nothing: the index lists the guides; commands, options and settings exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest
import typer.main
import yaml
from pydantic import BaseModel
from typer.core import TyperGroup

from scheduler import __version__
from secondary_scheduler.cli.app import build
from secondary_scheduler.cli.checking import check_file
from stacks.checking import SECRET_KEYS
from stacks.settings import StackSettings
from tests.support.pages import CHECKOUT, GUIDES, INDEX, File, Step, anchor, blocks, guides, inventory, pages, text_of

TYPED = [page for page in pages() if inventory(page).commands]
PROGRAMS = {
    *("pulumi", "kubectl", "secondary-scheduler", "kube-scheduler", "git", "jq", "oc", "podman", "docker", "make"),
    *("helm", "cosign", "openssl", "bin/kube-scheduler"),
    *("python", "python3", ".venv/bin/pip", ".venv/bin/python", "~/secondary-scheduler-cli/bin/pip"),
}
SHELL = {
    *("cd", "cp", "diff", "rm", "export", "for", "do", "done", "until", "grep", "sleep", "wc", "sed", "sh"),
    *("cat", "echo", "kill", "tar", "source", "eval", "test", "timeout"),
}
_LINK = re.compile(r"\[[^]]*\]\(([^)#\s]*)(#[^)\s]*)?\)")
_ASSIGNMENT = re.compile(r"[A-Z_]+=.*")


def simple_commands(text: str) -> Iterator[list[str]]:
    """Yield the simple commands of a command line as lists of words, including those inside `$( )`."""
    inner = re.findall(r"\$\(([^()]*)\)", text)
    for each in inner:
        yield from simple_commands(each)
    without = re.sub(r"\$\([^()]*\)", "X", text.replace("\\\n", " ")).replace("\n", " ; ")
    lexer = shlex.shlex(without, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for token in [*lexer, ";"]:
        if set(token) <= set(";&|"):
            if words:
                yield words
            words = []
        elif token in ("do", "until", "done"):
            continue
        else:
            words.append(token)


def steps(guide: str) -> list[tuple[int, list[str]]]:
    """Return every simple command of a guide with its line."""
    return [
        (part.line, words)
        for block in blocks(guide)
        for part in block.content
        if isinstance(part, Step)
        for words in simple_commands(part.command)
    ]


def files(guide: str) -> list[File]:
    return [part for block in blocks(guide) for part in block.content if isinstance(part, File)]


def known_key(path: str) -> bool:
    """Tell whether the stack's settings have a field of this path, such as `plugins.score.enabled[0].args.x`."""
    if path in SECRET_KEYS:
        return True
    model: Any = StackSettings
    path = path.removeprefix("secondary-scheduler:")
    for part in re.findall(r"[^.\[\]]+", path):
        if part.isdigit():
            continue
        if model is Any:
            return True
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if part not in fields:
            return False
        model = _model_in(fields[part].annotation)
    return True


def _model_in(annotation: Any) -> Any:
    """Return the model inside `Annotated`, `| None` or a tuple; Any if there is none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, UnionType, tuple) or get_args(annotation):
        models = [_model_in(each) for each in get_args(annotation)]
        return next((each for each in models if each is not Any), Any)
    return Any


def test_the_index_has_every_guide_and_nothing_else() -> None:
    linked = {target for target, _ in _LINK.findall(text_of(INDEX)) if "/" not in target}
    assert linked == {Path(guide).name for guide in guides()}
    assert "docs/guides/README.md" in (CHECKOUT / "README.md").read_text()


@pytest.mark.parametrize("guide", [INDEX, *guides()])
def test_links_lead_to_files_and_headings(guide: str) -> None:
    for target, fragment in _LINK.findall(text_of(guide)):
        if target.startswith("http"):
            continue
        path = (CHECKOUT / GUIDES / target).resolve() if target else CHECKOUT / guide
        assert path.exists(), target
        if fragment and path.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            assert fragment[1:] in {anchor(heading) for heading in headings}, f"{target}{fragment}"


@pytest.mark.parametrize("guide", TYPED)
def test_programs_exist(guide: str) -> None:
    assert steps(guide)
    for line, words in steps(guide):
        if words[0] == "for" or _ASSIGNMENT.fullmatch(words[0]):
            continue
        assert words[0] in PROGRAMS | SHELL, f"{guide}:{line}: {words[0]}"


def test_what_guides_and_examples_install_with_pip_exists() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = [path.read_text() for path in (*(CHECKOUT / GUIDES).glob("*.md"), *(CHECKOUT / "examples").rglob("*.yaml"))]
    installed = [argument for text in texts for argument in re.findall(r"pip install '?([^'\s]+)'?", text)]
    assert installed
    locked = re.findall(r"^pip-audit==\S+", (CHECKOUT / "requirements-dev.txt").read_text(), re.MULTILINE)
    ours = {*(f".[{extra}]" for extra in extras), "./devcluster", "./examples/scheduler-timestamp"}
    wheel = f"dist/secondary_scheduler-{__version__}-py3-none-any.whl[cli]"
    assert set(installed) <= {*ours, *locked, wheel}


@pytest.mark.parametrize("guide", TYPED)
def test_commands_and_options_of_secondary_scheduler_exist(guide: str) -> None:
    for line, words in steps(guide):
        if words[0] == "secondary-scheduler":
            problem = misused(words[1:])
            assert not problem, f"{guide}:{line}: {problem}"


def misused(words: list[str]) -> str:
    """Return which command or option does not exist; empty if all exist."""
    command: Any = typer.main.get_command(build(words))
    while isinstance(command, TyperGroup):
        if not words or words[0] not in command.commands:
            return f"no command {' '.join(words[:1])}"
        command, words = command.commands[words[0]], words[1:]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("-") and word != "-" and word.partition("=")[0] not in options]
    return f"no option {unknown[0]}" if unknown else ""


@pytest.mark.parametrize("guide", TYPED)
def test_stack_settings_exist(guide: str) -> None:
    for line, words in steps(guide):
        if words[:2] == ["pulumi", "config"]:
            key = next(word for word in words[3:] if not word.startswith("-"))
            assert known_key(key), f"{guide}:{line}: {key}"


@pytest.mark.parametrize("guide", TYPED)
def test_files_in_guides_are_valid(guide: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_CA", __file__)
    for file in files(guide):
        if file.path.startswith("stacks/"):
            text = file.content + "  secondary-scheduler:prometheusToken: {secure: v1:x}\n"
            for checked in check_file(CHECKOUT / file.path, text, None, allow_token=False):
                assert checked.valid, f"{guide}:{file.line}: {checked.problems}"
        elif file.path.endswith(".yaml"):
            for document in yaml.safe_load_all(file.content):
                assert {"apiVersion", "kind"} <= set(document), f"{guide}:{file.line}"


def test_the_checks_find_mistakes() -> None:
    assert list(simple_commands("a $(b -c) | d --e && f")) == [["b", "-c"], ["a", "X"], ["d", "--e"], ["f"]]
    assert misused(["simulate", "--no-such"])
    assert misused(["fleet", "destroy"])
    assert not misused(["validate", "x.yaml"])
    assert known_key("plugins.score.enabled[0].args.targetUtilization")
    assert known_key("metricProvider.credentials.existingSecret.caKey")
    assert not known_key("metricProvider.credentials.existingSecret.ca")
    assert not known_key("schedulerImagee")


def test_expected_output_is_compared_part_by_part() -> None:
    step = Step("x", ("one … three",), 1)
    assert step.missing_in("one two\nthree") == ["one … three"]
    assert not step.missing_in("  ++ one   two three four")


def test_every_fence_is_closed() -> None:
    for page in pages():
        assert text_of(page).count("```") % 2 == 0
