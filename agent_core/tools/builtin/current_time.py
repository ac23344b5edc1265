"""The time of day, anywhere."""

from datetime import datetime
from zoneinfo import ZoneInfo

from agent_core.agent.snapshot import is_zone
from agent_core.tools.base import CallContext, ToolError
from agent_core.tools.functions import tool


@tool(title="Checking the time", title_done="Checked the time", concurrency_safe=True)
async def current_time(context: CallContext, timezone: str = "UTC") -> str | ToolError:
    """Tell the current date, weekday and time.

    Args:
        timezone: IANA name of the time zone, such as `Europe/Berlin` or `UTC`.
    """
    if not is_zone(timezone):
        return ToolError(
            f"There is no time zone `{timezone[:60]}`. Use an IANA name such as `Europe/Berlin`, or `UTC`."
        )
    now = datetime.fromtimestamp(context.clock.now() / 1000, ZoneInfo(timezone))
    offset = f"{now:%z}"
    return f"{now:%A, %Y-%m-%d %H:%M:%S} ({timezone}, UTC{offset[:3]}:{offset[3:5]})"
