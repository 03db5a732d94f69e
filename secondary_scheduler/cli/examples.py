"""The examples at the end of a command's help."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """The epilog with these lines; each is a command, without the program's name, or a comment (`# …`)."""
    shown = (line if line.startswith("#") else f"secondary-scheduler {line}" for line in lines)
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in shown)
