"""What the doctor reports on MCP servers: the file that defines some, and how each was found when it was last asked."""

import time
from collections.abc import Collection, Iterator, Sequence

from agent_core import ConfigError
from agent_core.domain.mcp_login import login_object
from agent_core.domain.mcp_tools import changes_of, offered_of
from agent_core.domain.tools import secrets_in
from agent_core.runtime.mcp.shown import status_of
from agent_core.store.work.tooling.servers import StoredServer
from app.doctor.findings import Finding
from app.mcp_file import read_mcp_file
from app.settings import Settings
from app.storage.servers import stored_servers

_SHOWN = 5
"""Tools that are left out of a server which are named."""
_LATE_S = 3 * 3600
"""Seconds without a discovery after which no process seems to ask: they do each hour."""

_OVERDUE_S = 120
"""Seconds after which a server that is due was not asked: a process that does has it for 90."""


def mcp_servers(settings: Settings) -> Iterator[Finding]:
    """Report mcp.json, and the servers as the processes of this deployment know them."""
    try:
        filed = read_mcp_file(settings)
    except ConfigError as error:
        yield Finding("fail", "mcp", str(error))
        filed = []
    stored, secrets = stored_servers(settings)
    names = {each.server.name for each in stored}
    for server in filed:
        if server.name not in names:
            yield Finding("ok", "mcp", f"`{server.name}` of {settings.mcp}: new, asked when a server starts")
    yield from described(stored, secrets, time.time())


def described(stored: Sequence[StoredServer], secrets: Collection[str], now: float) -> Iterator[Finding]:
    """Give how each of the servers is at *now*, in seconds since the epoch."""
    for each in stored:
        name, listing = each.server.name, None if each.kept is None else each.kept.listing
        changes = changes_of(each.server, listing, each.accepted)
        tools = len(offered_of(each.server, listing, each.accepted))
        summary = "never reached" if each.listed_at is None else f"{tools} tools, {_ago(now - each.listed_at / 1000)}"
        if missing := sorted(secrets_in(each.server) - set(secrets)):
            listed = ", ".join(missing)
            yield Finding("fail", "mcp", f"`{name}`: no secret {listed}", "store it with `parley secrets set`")
        if each.kept is not None and each.kept.left_out and each.server.enabled:
            left = "; ".join(f"{gone.tool}: {gone.why}" for gone in each.kept.left_out[:_SHOWN])
            more = f" and {len(each.kept.left_out) - _SHOWN} more" if len(each.kept.left_out) > _SHOWN else ""
            yield Finding("warn", "mcp", f"`{name}`: left out: {left}{more}", "correct them at the server")
        login = login_object(each.server, each.login_state, round(now * 1000)) if each.server.enabled else None
        if login is not None and login.remedy is not None:
            yield Finding("warn", "mcp", f"`{name}`: {login.why}", login.remedy)
            continue
        match status_of(each):
            case "disabled":
                yield Finding("ok", "mcp", f"`{name}`: disabled")
            case "failing":
                yield Finding("warn", "mcp", f"`{name}`: {summary}; {each.error}", _again(each.due_at / 1000 - now))
            case "changed":
                held = ", ".join(change.tool for change in changes if change.change != "removed")
                remedy = f"see `parley tools show {name}`, then `parley tools accept {name}`"
                yield Finding("warn", "mcp", f"`{name}`: {summary}; held back: {held}", remedy)
            case "new":
                yield Finding("warn", "mcp", f"`{name}`: never asked", "start `parley serve`")
            case "ok" if each.listed_at is not None and now - each.listed_at / 1000 > _LATE_S:
                yield Finding("warn", "mcp", f"`{name}`: {summary}", "no process asks it; start `parley serve`")
            case "ok":
                yield Finding("ok", "mcp", f"`{name}`: {summary}")


def _ago(seconds: float) -> str:
    return f"asked {max(0, round(seconds / 60))} min ago"


def _again(seconds: float) -> str:
    """Return when a server is asked again that is due in *seconds*, which are negative once it should have been."""
    if seconds < -_OVERDUE_S:
        return f"overdue for {round(-seconds / 60)} min, no process asks it; start `parley serve`"
    return f"asked again in {max(1, round(seconds / 60))} min"
