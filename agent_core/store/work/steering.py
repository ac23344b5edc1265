"""What channels know of who sent a steered message, kept with the run that it joined until that run consumes it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, select, update

from agent_core.channels import NO_OPTIONS, RunOptions, SteeredContext, read_options
from agent_core.store.log import RUN, RunRef


def keep(connection: Connection, run: RunRef, seq: int, settings: Mapping[str, Any], *, waiting: int) -> None:
    """Keep *settings* for the tools with the message at *seq* of *run*, before which *waiting* wait for a step.

    The run goes on with its own; this is for the next one, if that opens with the message.
    """
    options = read_options(run.options)
    left = options.steered[len(options.steered) - waiting :] if waiting < len(options.steered) else options.steered
    changed = replace(options, steered=(*left, SteeredContext(seq, dict(settings))))
    connection.execute(update(RUN).where(RUN.c.key == run.key).values(options=msgspec.json.encode(changed)))


def options_of(connection: Connection, ended: int, seq: int) -> bytes | None:
    """Return the options of the run that opens with the message at *seq*, which joined the run *ended*."""
    stored = connection.execute(select(RUN.c.options).where(RUN.c.key == ended)).scalar()
    contexts = (each.tool_context for each in read_options(stored).steered if each.seq == seq)
    options = RunOptions(tool_context=next(contexts, None))
    return None if options == NO_OPTIONS else msgspec.json.encode(options)
