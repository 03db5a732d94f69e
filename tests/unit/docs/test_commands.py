"""Every command on a page is run by a test, or is on the one list of docs/guides/README.md with the reason."""

from __future__ import annotations

import re

import pytest

from tests.support.pages import INDEX, JOURNEYS, blocks, fences, inventory, listed, pages, text_of

LANGUAGES = {"console", "text", "yaml", "json", "toml", "python", "dockerfile", "mermaid"}
_PROGRAMS = "pulumi|kubectl|secondary-scheduler|kube-scheduler|make|python|oc|git|podman|docker"
_INDENTED = re.compile(rf"\n\n {{4,}}(?:\$ )?({_PROGRAMS}) .*")


@pytest.mark.parametrize("page", pages())
def test_a_command_is_run_by_a_journey_or_is_on_the_list(page: str) -> None:
    counted = inventory(page)
    lines = ", ".join(f"{page}:{line}" for line in counted.neither)
    assert not counted.neither, (
        f"no test runs the block at {lines}: add the page to a journey of tests/support/pages.py, or write needs=WORD "
        f"behind `console` and a row with the reason in {INDEX}"
    )
    assert counted.commands == counted.run + counted.listed


def test_the_list_has_nothing_that_no_page_has() -> None:
    needed = {(page, block.needs) for page in pages() for block in blocks(page) if block.needs}
    assert set(listed()) == needed


def test_most_commands_are_run() -> None:
    counts = [inventory(page) for page in pages()]
    commands, run = sum(count.commands for count in counts), sum(count.run for count in counts)
    assert commands > 200
    assert run > 0.8 * commands


def test_journeys_name_pages_and_headings_that_exist() -> None:
    for journey, steps in JOURNEYS.items():
        for step in steps:
            page, _, section = step.partition("#")
            mine = [block for block in blocks(page) if not section or section in block.section]
            assert mine, f"{journey}: {step}"
    named = {block.journey for page in pages() for block in blocks(page)} - {""}
    assert named <= set(JOURNEYS)


@pytest.mark.parametrize("page", pages())
def test_commands_stand_in_blocks_that_the_inventory_reads(page: str) -> None:
    for fence in fences(page):
        language = fence.info.partition(" ")[0]
        assert language in LANGUAGES, f"{page}:{fence.line}: a fence begins with one of {sorted(LANGUAGES)}"
        if language != "console":
            assert not [line for line in fence.lines if line.startswith("$ ")], f"{page}:{fence.line}: commands"
    without = re.sub(r"^ *```.*?^ *```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    assert not _INDENTED.findall(without), f"{page}: a command that is only indented; make it a console block"
