"""The clock as the model reads it: date, weekday and time, with the first message and where time has passed. Pure."""

from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent_core.agents import Agent
from agent_core.channels import Context

OFF = "off"
"""The zone of an agent whose model learns no time."""
GAP = 1_800_000
"""Milliseconds after which a message comes with the time again; who needs it to the minute has a tool for it."""

OWN_FILES = frozenset({"localtime", "posixrules", "Factory"})
OWN_FOLDERS = ("posix/", "right/")
"""What a machine's folder of time zones has beside them: where it stands itself, and copies with other leap seconds."""


def zone_for(agent: Agent, asker: str | None) -> str:
    """Return the time zone in which the model of *agent* learns the time, or `off`; *asker* is the asker's.

    What the agent says comes first, then where the person is, then what holds for all agents.
    """
    own, usual = agent.definition.clock, agent.defaults.clock
    return own or (usual if usual == OFF else asker or usual)


def clock_context(zone: str, clocked: int, now: int) -> Context | None:
    """Return what a message at *now* says of the time in *zone*, None where the model knows it.

    *clocked* is when the newest such note in the window was written, 0 for none; both are in ms. It is written once, so
    the bytes of earlier messages stay as they are.
    """
    if zone == OFF:
        return None
    where = zone_of(zone)
    if clocked and now - clocked < GAP and _at(clocked, where).date() == _at(now, where).date():
        return None
    return Context(text=clock_text(now, where), source="clock")


def clock_text(now: int, where: ZoneInfo) -> str:
    """Return the time *now*, in ms, as people *where* say it, such as `Monday, 2026-11-23, 09:30 (UTC, UTC+00:00)`."""
    at = _at(now, where)
    offset = f"{at:%z}"
    return f"{at:%A, %Y-%m-%d, %H:%M} ({where.key}, UTC{offset[:3]}:{offset[3:5]})"


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """Return the time zone with the IANA *name*; UTC where there is none."""
    return ZoneInfo(name) if is_zone(name) else ZoneInfo("UTC")


@lru_cache(maxsize=256)
def is_zone(name: str) -> bool:
    """Return whether *name* is the IANA name of a time zone; files of this machine's own, as `localtime`, are none."""
    if name in OWN_FILES or name.startswith(OWN_FOLDERS):
        return False
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder's name or an overlong one is an OSError
        return False
    return True


def _at(time: int, where: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(time / 1000, where)
