"""`python -m tests.load.fair`: three visitors flood and one asks, over HTTP; when the one reads a first text.

Ends with an error when that takes longer than `MAX_RATIO` times what it takes alone. Time means something on a machine
that does nothing else: in the gate `tests/app/test_fairness.py` asserts the order.
"""

import asyncio
import hashlib
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import httpx
from alembic import command

from agent_core import Actor, Core, Definition, SqliteDatabase, SystemClock
from agent_core.domain.agents import Limits
from agent_core.domain.quotas import Quota, VisitorQuota
from agent_core.engine.local import LocalEngine
from agent_core.providers.demo import DemoProvider
from app.compose import create_app
from app.serving.readers import Readers
from app.settings import Settings
from app.storage.keys import ApiKey, Keys
from channels.web.identity import TokenSigner
from tests.app.served import served
from tests.conftest import alembic_config

ROOM, FLOODERS, EACH, TRIES = 4, 3, 20, 5
MAX_RATIO = 2.0
"""Times the wait alone that a first text may take beside those who flood."""
FREE = VisitorQuota(**dict.fromkeys(Quota.__struct_fields__))


class Visitor:
    """A visitor of the server at *url*."""

    def __init__(self, url: str, token: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=120)

    async def post(self) -> str:
        """Ask in a new session, and return it."""
        session = (await self._http.post("/v1/sessions", json={})).raise_for_status().json()["id"]
        body = {"text": "What can you do?"}
        (await self._http.post(f"/v1/sessions/{session}/messages", json=body)).raise_for_status()
        return session

    async def ask(self) -> float:
        """Ask, and return the seconds until the answer's first text; returns once it is whole."""
        began = time.perf_counter()
        session = await self.post()
        async with self._http.stream("GET", f"/v1/sessions/{session}/events?until=idle") as answer:
            texts = [time.perf_counter() async for line in answer.aiter_lines() if line == "event: text.delta"]
        return texts[0] - began

    async def close(self) -> None:
        await self._http.aclose()


async def main() -> None:
    """Measure, and print the two times and their ratio."""
    with tempfile.TemporaryDirectory(prefix="parley-fair-") as folder:
        path, readers, tokens = Path(folder) / "parley.db", Readers(), TokenSigner(Keys(b"k" * 32).derive)
        await asyncio.to_thread(command.upgrade, alembic_config(f"sqlite:///{path}"), "head")
        provider = DemoProvider(SystemClock(), rate=50)
        engine = partial(LocalEngine, max_runs=ROOM)
        core = Core(SqliteDatabase(path), providers={"demo": provider}, tools={}, default_model="demo", engine=engine)
        await core.start()
        wanted = Definition(name="assistant", instructions="Be brief.", limits=Limits(visitor=FREE))
        agent = await core.agents.create(wanted)
        settings = Settings(_env_file=None, data=Path(folder), agents=Path(folder))  # type: ignore[call-arg]
        key = ApiKey(hashlib.sha256(b"key").digest())
        app = create_app(core, settings, tokens=tokens, api_key=key, readers=readers)
        names = ("asker", *(f"flooder {n}" for n in range(FLOODERS)))
        async with served(app, readers) as url:
            people = [Visitor(url, tokens.visitor(Actor(name, "visitor"), agent=agent.id).text) for name in names]
            asker, *flooders = people
            alone = median([await asker.ask() for _ in range(TRIES)])
            for _ in range(EACH):
                await asyncio.gather(*(each.post() for each in flooders))
            flooded = median([await asker.ask() for _ in range(TRIES)])
            left = len((await core.runs(status="queued", limit=100)).items)
            for each in people:
                await each.close()
        await core.stop(0)
    ratio, others = flooded / alone, FLOODERS * EACH
    print(f"first text alone {alone:.3f} s, beside {others} runs of others {flooded:.3f} s: {ratio:.2f} times")
    if not left:
        raise SystemExit("The flood was over before the last question: nothing is proved.")
    if ratio > MAX_RATIO:
        raise SystemExit(f"More than {MAX_RATIO:g} times: the flood delays others.")


if __name__ == "__main__":
    asyncio.run(main())
