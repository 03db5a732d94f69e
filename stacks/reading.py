"""Reading a stack's settings so that one pass finds every mistake."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from shlex import quote
from typing import Any

from components.settings import ReadSettings, read_settings, shown_value
from scheduler.config import Problem
from stacks.settings import StackSettings

_OPERATOR_IMAGE = ("operatorImage", "localhost/secondary-scheduler/operator:0")
_STAND_INS = {
    "schedulerImage": ("schedulerImage", "localhost/secondary-scheduler/kube-scheduler:0"),
    "operatorImage": _OPERATOR_IMAGE,
    "operator_image": _OPERATOR_IMAGE,  # as pydantic calls it where its default is wrong
}
"""Images in place of wrong or missing ones, so that everything else can be checked."""


def read_stack_settings(document: dict[str, Any]) -> ReadSettings[StackSettings]:
    """Read the settings; a wrong one is left out, so that the others can still be checked against each other."""
    return read_settings(document, StackSettings, _STAND_INS)


def separate_keys(document: MutableMapping[str, Any], structured: Collection[str]) -> list[Problem]:
    """Take keys such as `cluster.context` out of the document, and return a problem for each.

    `pulumi config set` without --path makes such a key of its own, which means nothing."""
    problems = []
    for key in [key for key in document if "." in key and key.partition(".")[0].partition("[")[0] in structured]:
        value = shown_value((key,), document.pop(key))
        commands = f"pulumi config rm {quote(key)} && pulumi config set --path {quote(key)} {value}"
        problems.append(Problem((key,), f"is a key of its own, because --path was missing; run: {commands}"))
    return problems
