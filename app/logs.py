"""What the server and its commands print: logs, and lines for people."""

import logging
import sys
from typing import Any, Literal

import structlog
from structlog.dev import ConsoleRenderer, plain_traceback

from channels.text import one_line, visible


def say(text: str) -> None:
    """Print *text* and a line end, so that all of it can be seen and no terminal acts on it."""
    sys.stdout.write(f"{visible(text)}\n")
    sys.stdout.flush()


def remark(text: str) -> None:
    """Print *text* on one line of standard error: what a program that reads the result does not want."""
    sys.stderr.write(f"{one_line(text)}\n")
    sys.stderr.flush()


# It writes to standard error itself unless its logger has a handler.
_SELF_LOGGING = "dbos"


def configure(form: Literal["text", "json"] = "text", level: int = logging.INFO) -> None:
    """Set up the logs of this process, before anything logs: lines for people, or one JSON object per line.

    Ours are shown from *level* on, those of libraries from WARNING on. No renderer here shows a frame's variables: they
    hold prompts, results and keys.
    """
    _configure_ours(form, level)
    _configure_libraries(form)


def complete(form: Literal["text", "json"] = "text") -> None:
    """Set up what a launcher of one's own has not: our lines, and those of libraries."""
    if not structlog.is_configured():
        _configure_ours(form, logging.INFO)
    if not logging.root.handlers:
        _configure_libraries(form)


def _configure_ours(form: Literal["text", "json"], level: int) -> None:
    structlog.configure(
        processors=[*_shared(), *_shown_as(form)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _configure_libraries(form: Literal["text", "json"]) -> None:
    strip = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = logging.StreamHandler(sys.stderr)
    named = [structlog.stdlib.add_logger_name] if form == "json" else []
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_shared(), *named], processors=[strip, *_shown_as(form)]
        )
    )
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.WARNING)
    logging.captureWarnings(form == "json")  # Python's own would be lines of another form
    library = logging.getLogger(_SELF_LOGGING)
    library.handlers[:], library.propagate = [logging.NullHandler()], True


def _shared() -> list[Any]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _shown_as(form: Literal["text", "json"]) -> list[Any]:
    return _for_people() if form == "text" else _for_programs()


def _for_people() -> list[Any]:
    plain = ConsoleRenderer(colors=False, pad_event_to=0, pad_level=False, exception_formatter=plain_traceback)
    return [plain, _shown]


def _shown(_logger: Any, _method: str, line: str) -> str:
    """Return *line* as a terminal may show it: what people sent is in it."""
    return visible(line)


def _for_programs() -> list[Any]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
