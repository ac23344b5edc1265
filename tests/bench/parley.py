"""The side that is measured: the whole application around a real core, its log on SQLite, a scripted model."""

import hashlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from starlette.types import ASGIApp

from agent_core import Core, Definition, Limits, SqliteDatabase, Text
from agent_core.providers.base import Request
from agent_core.testing import Answer, ScriptedProvider, call, flat, sleep, usage
from agent_core.tools.builtin import calculate
from app.compose import create_app
from app.keys import ApiKey, Keys
from app.settings import Settings
from channels.web.identity import Tokens
from tests.bench.client import KEY
from tests.bench.exchange import TOKEN, Exchange
from tests.bench.history import History
from tests.bench.serving import Orders, serve

USAGE = usage(input=1_234, output=200, cache_read=12_345, cache_write_short=123)
SECRET = b"a secret of no less than 32 characters"
ASSISTANT = Definition(name="assistant", instructions="Be brief.", tools=("calculate",))
# The same with its whole history in every request.
UNBOUNDED = Definition(
    name="unbounded", instructions="Be brief.", tools=("calculate",), limits=Limits(max_context_messages=None)
)


def script(request: Request) -> Answer:
    """Do what the last question says; the request is put together as for a model behind a wire."""
    b",".join([entry.wire for entry in request.messages])
    asked = next(entry.message for entry in reversed(request.messages) if entry.message.role == "user")
    assert isinstance(asked.parts[0], Text)
    exchange = Exchange.read(asked.parts[0].text)
    if exchange.tool and request.messages[-1].message.role == "user":
        return [call("calculate", expression="12 * 7"), USAGE]
    return answer(exchange)


@cache
def answer(exchange: Exchange) -> Answer:
    """Return the text of *exchange*, made once."""
    text = flat(exchange.deltas, text=TOKEN, rate=exchange.rate)
    return [sleep(exchange.delay), text, USAGE] if exchange.delay else [text, USAGE]


@asynccontextmanager
async def building(database: Path) -> AsyncIterator[tuple[ASGIApp, Orders]]:
    """Give the application on a migrated *database*."""
    core = Core(
        SqliteDatabase(database),
        providers={"scripted": ScriptedProvider(script, record=False)},
        tools={"calculate": calculate},
        default_model="scripted",
    )
    await core.start()
    for definition in (ASSISTANT, UNBOUNDED):
        await core.agents.create(definition)
    settings = Settings(_env_file=None, data=database.parent, agents=database.parent)  # type: ignore[call-arg]
    api_key = ApiKey(hashlib.sha256(KEY.encode()).digest())
    history = History(core)
    try:
        yield (
            create_app(core, settings, tokens=Tokens(Keys(SECRET).derive), api_key=api_key),
            {"build": history.build, "forget": history.forget},
        )
    finally:
        await core.stop()


if __name__ == "__main__":
    serve(building(Path(sys.argv[1])))
