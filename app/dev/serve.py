"""Serve the project of the current folder on this machine, and take up what changes in it."""

from app.dev.workshop import Workshop
from app.main import serve
from app.own_tools.toolset import OwnTools
from app.printer import say
from app.settings import Settings
from app.storage.migrate import migrate


def dev(settings: Settings) -> None:
    """Migrate, and serve on loopback until a signal comes; raise ConfigError when that cannot begin."""
    local = settings if settings.loopback else settings.model_copy(update={"host": "127.0.0.1"})
    migrate(local)
    say(f"Changes in `{local.agents}`, `{local.tools}` and `{local.mcp}` (MCP servers) are taken up while this runs.")
    serve(local, live=Workshop(local, OwnTools.of(local)))
