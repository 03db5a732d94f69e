"""Problems of stack settings get the line of their key in the stack file, or of the closest enclosing key."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.catalog import Loc
from scheduler.config import Problem
from stacks.problems import locate

STACK_FILE = """\
encryptionsalt: v1:abc
config:
  secondary-scheduler:logLevel: Loud
  secondary-scheduler:plugins:
    score:
      enabled:
        - name: A
          weight: 1
        - name: B
  other:logLevel: Normal
"""


@pytest.mark.parametrize(
    ("loc", "line"),
    [
        (("logLevel",), 3),
        (("plugins",), 4),
        (("plugins", "score", "enabled", 0, "weight"), 8),
        (("plugins", "score", "enabled", 1), 9),
        (("plugins", "score", "enabled", 1, "weight"), 9),
        (("plugins", "score", "enabled", 7), 6),
        (("schedulerImage",), 0),
        (("cluster", "clusterIdentifier"), 0),
        ((), 0),
    ],
)
def test_a_problem_gets_the_line_of_the_closest_key(tmp_path: Path, loc: Loc, line: int) -> None:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text(STACK_FILE)
    (located,) = locate([Problem(loc, "is wrong")], file, "secondary-scheduler", source="stacks/Pulumi.test.yaml")
    assert (located.source, located.line) == ("stacks/Pulumi.test.yaml", line)


def test_problems_of_other_files_keep_their_position_and_come_last(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text(STACK_FILE)
    other = Problem(("profiles",), "is wrong", 2, 5, source="stacks/kube-scheduler.yaml")
    problems = [other, Problem(("plugins",), "is wrong"), Problem(("logLevel",), "is wrong")]
    located = locate(problems, file, "secondary-scheduler", source="f")
    assert [problem.line for problem in located] == [3, 4, 2]
    assert located[-1] == other


@pytest.mark.parametrize("content", [None, "a: [", "- list\n"])
def test_without_a_readable_stack_file_problems_have_no_line(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "Pulumi.test.yaml"
    if content is not None:
        file.write_text(content)
    (located,) = locate([Problem(("logLevel",), "is wrong")], file, "secondary-scheduler", source="f")
    assert str(located) == "f: logLevel: is wrong"
