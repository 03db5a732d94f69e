"""Log lines as JSON, one per event, through the standard library's logging."""

import logging
import sys
from collections.abc import Iterable, Mapping

import structlog

LEVELS: Mapping[str, int] = {
    "": logging.INFO,
    "Normal": logging.INFO,
    "Debug": logging.DEBUG,
    "Trace": logging.DEBUG,
    "TraceAll": logging.DEBUG,
}
"""spec.operatorLogLevel -> level of this process."""

DEBUG_VERBOSITY = 4
"""From this -v on, debug lines are written, as with klog."""


def configure(verbosity: int) -> None:
    """Set up logging for the process; called once, before anything else."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(sort_keys=True),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO)
    set_level(root.level)
    logging.getLogger("asyncio").setLevel(logging.INFO)
    # One line per health probe and scrape would drown the rest.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


def set_level(level: int) -> None:
    """Change the level of this project's own loggers, at run time."""
    logging.getLogger("secondary_scheduler").setLevel(level)


def follow(operator_log_levels: Iterable[str]) -> None:
    """Make the operator as talkative as the most talkative spec.operatorLogLevel says, but never less than its -v."""
    wanted = (LEVELS.get(level, logging.INFO) for level in operator_log_levels)
    set_level(min((*wanted, logging.getLogger().level)))
