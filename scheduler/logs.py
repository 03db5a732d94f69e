"""Logging: one line per record to stderr, as text (logfmt) or JSON, whoever writes it: we, a library, or Python itself
about an exception that nobody caught.

What a line says may come from a stranger: names, labels, messages of webhooks. In text, characters that would begin a
new line or steer a terminal are shown as escapes; JSON escapes them anyway.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import structlog

DEBUG_VERBOSITY: Final = 4
"""-v from which debug lines are shown; the operator's logLevel Debug."""
LIBRARY_VERBOSITY: Final = 6
"""-v from which libraries' information is shown, not only their warnings."""
_STEERING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, line separators, and marks that change the direction of writing."""
_PLAIN = re.compile(r"[^\s\"=\\]+")


def configure_logging(logging_format: str, verbosity: int) -> None:
    """Set up logging once per process: `text` or `json`, and klog's -v.

    Information is shown from 0 on; debug lines from 4 on (`DEBUG_VERBOSITY`). What costs time to find out, such as
    scores, is asked for by whoever logs it (`scheduler.engine.attemptlog`).
    """
    renderer = _as_json if logging_format == "json" else render_text
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LibraryLines(renderer))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO if verbosity >= LIBRARY_VERBOSITY else logging.WARNING)
    logging.captureWarnings(True)
    if logging_format == "json":
        _log_uncaught()


def report_problem(text: str, *, logging_format: str) -> None:
    """Write why the process ends, as it is, or each line as JSON. It should come last: the kubelet shows the end."""
    if logging_format != "json":
        sys.stderr.write(f"{text}\n")
        return
    log = structlog.get_logger(component="app")
    for line in text.splitlines():
        log.error("command failed", err=line)


class _LibraryLines(logging.Formatter):
    """Renders records of the standard library's loggers as our own lines."""

    def __init__(self, renderer: structlog.typing.Processor) -> None:
        super().__init__()
        self._renderer = renderer
        self._stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        event: dict[str, Any] = {
            "event": record.getMessage(),
            "logger": record.name,
            "level": record.levelname.lower(),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return str(self._renderer(None, "", self._stamp(None, "", event)))


def _log_uncaught() -> None:
    """Log exceptions that nobody caught, so that their tracebacks do not break the format."""

    def log_exception(
        kind: type[BaseException], error: BaseException | None, trace: TracebackType | None, thread: str
    ) -> None:
        if issubclass(kind, KeyboardInterrupt | SystemExit):
            return
        text = "".join(traceback.format_exception(kind, error, trace))
        structlog.get_logger(component="app").error("uncaught exception", thread=thread, exception=text)

    sys.excepthook = lambda kind, error, trace: log_exception(kind, error, trace, "main thread")
    threading.excepthook = lambda args: log_exception(
        args.exc_type, args.exc_value, args.exc_traceback, args.thread.name if args.thread else "thread"
    )
    sys.unraisablehook = lambda args: log_exception(
        args.exc_type, args.exc_value, args.exc_traceback, str(args.err_msg or "finalizer")
    )


_render_json = structlog.processors.JSONRenderer()


def _as_json(logger: Any, name: str, event: Any) -> str:
    return str(_render_json(logger, name, event))


def render_text(_logger: Any, _name: str, event: Mapping[str, Any]) -> str:
    """Return an event as logfmt: time, level and text first, and no character that would end the line."""
    first = ("timestamp", "level", "event")
    keys = [*(key for key in first if key in event), *(key for key in event if key not in first)]
    return " ".join(f"{key}={_text_of(event[key])}" for key in keys)


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        value = ",".join(f"{key}:{part}" for key, part in value.items())
    elif isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    text = str(value)
    if _PLAIN.fullmatch(text):
        return _STEERING.sub(_escape, text)
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{_STEERING.sub(_escape, quoted)}"'


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
