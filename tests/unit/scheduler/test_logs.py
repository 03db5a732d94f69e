"""What the log looks like: one line per record, whoever writes it and whatever it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from scheduler.logs import render_text

WRITER = """
import logging, sys, threading, warnings
import structlog
from scheduler.logs import configure_logging, report_problem
configure_logging(sys.argv[1], int(sys.argv[2]))
log = structlog.get_logger(component="test")
{body}
"""


def written(logging_format: str, verbosity: int, body: str) -> str:
    """What a process of its own writes to stderr: logging is set up once per process."""
    command = [sys.executable, "-c", WRITER.format(body=body), logging_format, str(verbosity)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stderr


EVERYBODY = r"""
log.info("ours", pod="ns/name")
logging.getLogger("aiohttp").warning("theirs: %s", "a\nsecond line")
warnings.warn("deprecated", stacklevel=1)
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("asyncio").exception("failed")
    log.exception("failed", pod="ns/name")
thread = threading.Thread(target=lambda: {}["missing"], name="worker")
thread.start()
thread.join()
report_problem("file:1: wrong\nfile:2: wrong too", logging_format=sys.argv[1])
raise SystemExit("unformatted") if False else ValueError("uncaught\nand long")
"""


def test_as_json_every_line_is_an_object_whoever_writes_it() -> None:
    lines = written("json", 0, EVERYBODY).splitlines()
    records = [json.loads(line) for line in lines]
    assert all({"timestamp", "level", "event"} <= record.keys() for record in records)
    assert [record.get("err") for record in records if record["event"] == "command failed"] == [
        "file:1: wrong",
        "file:2: wrong too",
    ]
    traced = [record for record in records if "ZeroDivisionError" in record.get("exception", "")]
    assert len(traced) == 2
    assert {record["thread"] for record in records if record["event"] == "uncaught exception"} == {
        "worker",
        "main thread",
    }


def test_as_text_libraries_write_the_same_lines_as_we_do() -> None:
    lines = written("text", 0, "log.info('ours', n=1)\nlogging.getLogger('aiohttp').warning('theirs')").splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        "level=info event=ours component=test n=1",
        "level=warning event=theirs logger=aiohttp",
    ]


HOSTILE = 'x" level=error event="all pods deleted"\n2026 level=error event=forged\r\x1b[2J\u2028\u202e\x85end\\'
_FIELD = re.compile(r'(\w+)=("(?:\\.|[^"\\])*"|[^\s"]*)(?: |$)')


def test_what_strangers_write_forges_no_line_and_steers_no_terminal() -> None:
    event = {"event": HOSTILE, "level": "info", "pod": HOSTILE, "err": {HOSTILE: [HOSTILE]}, "victims": [HOSTILE]}
    line = render_text(None, "", event)
    assert line.isprintable()
    fields = _FIELD.findall(line)
    assert [name for name, _ in fields] == ["level", "event", "pod", "err", "victims"]
    assert dict(fields)["level"] == "info"
    assert "".join(match.group() for match in _FIELD.finditer(line)) == line, "nothing stands outside of a field"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ('a"b', r'"a\"b"'),
        ("a\\b", r'"a\\b"'),
        ("a\nb", r'"a\nb"'),
        ("\x1b[2J", r"\x1b[2J"),
        ("k=v", '"k=v"'),
        (True, "true"),
        (None, "None"),
        ({"NodeResourcesFit": 4, "TaintToleration": 1}, "NodeResourcesFit:4,TaintToleration:1"),
        (["a", "b"], "a,b"),
    ],
)
def test_a_value_in_text(value: object, expected: str) -> None:
    assert render_text(None, "", {"event": "x", "value": value}) == f"event=x value={expected}"


def test_verbosity_4_shows_debug_lines_and_6_information_of_libraries() -> None:
    body = "log.debug('ours')\nlogging.getLogger('aiohttp').info('theirs')\n"
    shown = {verbosity: re.findall(r"event=(\w+)", written("text", verbosity, body)) for verbosity in (3, 4, 6)}
    assert shown == {3: [], 4: ["ours"], 6: ["ours", "theirs"]}
