"""The side that is measured: the whole application around a real core, its log on SQLite, before a model server."""

import hashlib
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from agent_core.agents import Compaction, Definition, Limits
from agent_core.core import Core
from agent_core.providers.anthropic import anthropic
from agent_core.providers.compatible import compatible
from agent_core.providers.openai import openai
from agent_core.store.database import SqliteDatabase
from agent_core.tools.builtin import calculate
from app import logs
from app.compose import create_app
from app.serving.connections import Connections
from app.serving.server import Connection
from app.settings import Settings
from app.storage import ApiKey, Keys
from channels.web.identity import TokenSigner
from tests.bench.client import KEY
from tests.bench.history import History
from tests.bench.serving import Orders, listening, serve
from tests.bench.wires import MESSAGES, WIRES, BenchWire

SECRET = b"a secret of no less than 32 characters"
INSTRUCTIONS = "Be brief."
TOOLS = ("calculate",)
# A full window is cut, as the stored conversations were: a summary is a model call that no figure is about.
CUT, UNCUT = Compaction(kind="cut"), Compaction(kind="off")
# The agent of the first wire with its whole history in every request.
UNBOUNDED = Definition(
    name="unbounded",
    instructions=INSTRUCTIONS,
    tools=TOOLS,
    model=MESSAGES.model,
    limits=Limits(max_context_messages=None),
    compaction=UNCUT,
)


def provider(name: str, url: str) -> Any:
    """Return the provider *name* as the settings would build it for the server at *url*."""
    match name:
        case "anthropic":
            return anthropic(api_key="any", base_url=url)
        case "openai":
            return openai(api_key="any", base_url=f"{url}/v1")
        case _:
            return compatible(api_key="any", base_url=f"{url}/v1")


@asynccontextmanager
async def running(database: Path, url: str, wires: Sequence[BenchWire]) -> AsyncIterator[tuple[int, Orders]]:
    """Serve the application on a migrated *database*, with an agent on each of *wires* of the models at *url*."""
    async with AsyncExitStack() as stack:
        providers = {wire.provider: provider(wire.provider, url) for wire in wires}
        for each in providers.values():
            stack.push_async_callback(each.close)
            await each.prepare()
        core = Core(
            SqliteDatabase(database),
            providers=providers,
            tools={"calculate": calculate},
            default_model=wires[0].model,
        )
        await core.start()
        stack.push_async_callback(core.stop)
        for wire in wires:
            await core.agents.create(
                Definition(name=wire.agent, instructions=INSTRUCTIONS, tools=TOOLS, model=wire.model, compaction=CUT)
            )
        await core.agents.create(UNBOUNDED)
        settings = Settings(_env_file=None, data=database.parent, agents=database.parent)  # type: ignore[call-arg]
        api_key = ApiKey(hashlib.sha256(KEY.encode()).digest())
        app = create_app(core, settings, tokens=TokenSigner(Keys(SECRET).derive), api_key=api_key)
        history = History(core)
        port = await stack.enter_async_context(listening(app, partial(Connection, connections=Connections())))
        yield port, {"build": history.build, "forget": history.forget}


if __name__ == "__main__":
    logs.configure()  # as `parley serve` does
    serve(running(Path(sys.argv[1]), sys.argv[2], [WIRES[agent] for agent in sys.argv[3:]]))
