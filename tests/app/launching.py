"""`python -m tests.app.launching`: a launcher of one's own, which logs all that any library hands to a logger.

It sets up no logs of Parley's. With LAUNCHED=core it serves the application by uvicorn's own means.
"""

import asyncio
import logging
import os
import sys

import structlog
import uvicorn

from agent_core.clock import SystemClock
from agent_core.tools.builtin import BUILTIN
from app.compose import create_app, running
from app.main import greet, serve
from app.models import running_models
from app.serving.server import listening, url_of
from app.settings import Settings, load_settings
from app.storage import load_api_key, load_keys, prepare_data
from channels.web.identity import TokenSigner


async def run(settings: Settings) -> None:
    """Serve the application of a core without `app.main`."""
    prepare_data(settings)
    async with (
        running_models(settings, SystemClock()) as models,
        running(settings, models, kind="both", tools=BUILTIN, grace=0) as found,
    ):
        api_key = load_api_key(settings)
        app = create_app(found.core, settings, tokens=TokenSigner(load_keys(settings).derive), api_key=api_key)
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="debug"))
        with listening(settings.host, 0) as sock:
            greet(settings, url_of(settings.host, sock), api_key)
            await server.serve([sock])


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    if os.environ["LAUNCHED"] == "core":
        structlog.configure(processors=[structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()])
        asyncio.run(run(load_settings()))
    else:
        serve(load_settings())
