"""Logs: one line per event on standard error, tracebacks without what their variables held."""

import logging
import sys
from typing import Any

import structlog
from structlog.dev import ConsoleRenderer, plain_traceback


def configure() -> None:
    """Set up the logs of this process, before anything logs.

    Ours are shown from INFO on, those of libraries from WARNING on. No renderer here shows a frame's variables: they
    hold prompts, results and keys.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    shown = ConsoleRenderer(colors=False, pad_event_to=0, pad_level=False, exception_formatter=plain_traceback)
    structlog.configure(
        processors=[*shared, shown],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[strip, shown]))
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.WARNING)
