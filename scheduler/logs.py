"""Logging: structlog over the standard library, as text or JSON, to stderr."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logging(logging_format: str, verbosity: int) -> None:
    """Set up logging once per process.

    `verbosity` is klog's -v: 0 to 3 show information, 4 and more debugging, as the operator maps its log levels.
    """
    level = logging.DEBUG if verbosity >= 4 else logging.INFO
    processors: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    if logging_format == "json":
        renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
