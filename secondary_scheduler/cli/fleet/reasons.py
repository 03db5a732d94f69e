"""Why a stack failed, on one line, from the output and the events of the engine."""

from __future__ import annotations

import re

from secondary_scheduler.cli.fleet.events import one_line, plain_text

_LONGEST = 400
_NO_SUCH_STACK = re.compile(r"no stack named '([^']+)' found")
_LOCKS = re.compile(r"currently locked by \d+ lock")
_LOCK_HOLDER = re.compile(r"created by (\S+) \(pid (\d+)\) at (\S+)")
_SERVICE_CONFLICT = "Another update is currently in progress"
_PASSPHRASE = re.compile(r"incorrect passphrase|passphrase must be set")
_ERROR = re.compile(r"^\s*(?:error|Error):\s*(.+)$", re.MULTILINE)
_GENERIC = re.compile(r"^(preview|update|refresh|destroy) failed$")
_TRACEBACK = "Traceback (most recent call last)"


def failure_reason(stack: str, event_error: str, printed: str, code: int) -> str:
    """One line that says why the engine failed.

    `event_error` is the first error in its events, `printed` its stderr and stdout, `code` its exit code.
    """
    known = _known(stack, printed)
    if known:
        return known
    if event_error:
        return _shortened(event_error)
    errors = [error for error in _ERROR.findall(plain_text(printed)) if not _GENERIC.match(error.strip())]
    if errors:
        return _shortened(errors[0])
    last = [line for line in plain_text(printed).splitlines() if line.strip()]
    return _shortened(last[-1]) if last else f"pulumi ended with exit code {code} and no output"


def _known(stack: str, printed: str) -> str:
    if _LOCKS.search(printed):
        holder = _LOCK_HOLDER.search(printed)
        by = f" of {holder[1]} (pid {holder[2]}) since {holder[3]}" if holder else ""
        return f"locked by another update{by}; wait for it, or if it is dead: pulumi cancel --stack {stack}"
    if _SERVICE_CONFLICT in printed:
        return f"locked by another update; wait for it, or if it is dead: pulumi cancel --stack {stack}"
    if _NO_SUCH_STACK.search(printed):
        return f"the backend has no such stack; make it: pulumi stack init {stack}"
    if _PASSPHRASE.search(printed):
        return "its secrets cannot be decrypted: PULUMI_CONFIG_PASSPHRASE (or _FILE) is missing or not this stack's"
    return ""


def _shortened(text: str) -> str:
    if _TRACEBACK in text:
        lines = [line for line in plain_text(text).splitlines() if line.strip()]
        return one_line(lines[-1], _LONGEST)
    return one_line(text, _LONGEST)
