"""The web channel: visitors of a page. Its other routes are those of the API, which the application serves."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent_core import Core, SystemClock
from channels.base import Records
from channels.spec import ChannelSpec
from channels.web.settings import NAME, SETTINGS

if TYPE_CHECKING:
    from fastapi import APIRouter


@asynccontextmanager
async def serve(_core: Core, records: Records, _settings: object, *, socket: bool) -> "AsyncGenerator[APIRouter]":  # noqa: ARG001
    """Serve the scripts of the widget, and keep them for pages that pin this version."""
    from channels.web.routes import script_router, widget, widget_files  # noqa: PLC0415 - only where it is served
    from channels.web.versions import WidgetVersions  # noqa: PLC0415 - as above

    versions = WidgetVersions(records, SystemClock())
    await versions.keep(widget().build, widget_files())
    yield script_router(versions)


WEB: ChannelSpec[object] = ChannelSpec(name=NAME, address=re.compile(r"web:(?P<id>.+)"), settings=SETTINGS, serve=serve)
