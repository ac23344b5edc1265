"""HTTP tools in runs: no secret is in any event, log or file, and a call that a crash cut has the same key again."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from structlog.testing import capture_logs

from agent_core.agents import Definition, ToolDefinition
from agent_core.core import Core
from agent_core.events import ToolCompleted
from agent_core.messages import text_of
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.testing import ScriptedProvider, by_step, call, say
from tests.agent_core.crashing import CrashingDatabase
from tests.agent_core.net.stage import Site, ok, serving
from tests.agent_core.scenes import open_session, send
from tests.agent_core.stage import Stage
from tests.conftest import SECRETS, MakeCore, OpenDatabase
from tests.polling import PATIENCE

VALUE = 'p"w/ö 17+s3cr3t'
TEXT = "Content-Type: text/plain; charset=utf-8"


def forms(value: str) -> list[str]:
    """Return how a server may repeat a secret."""
    basic = [base64.b64encode(f"{user}:{value}".encode()).decode() for user in ("a", "ab", "abc")]
    return [value, json.dumps(value), quote(value), quote(value, safe=""), *basic]


async def test_a_secret_is_nowhere_but_in_the_request(make_core: MakeCore, database_path: Path):
    """A server repeats what it was sent in an answer and in an error, and no event, log line or file has it."""
    async with serving() as site:
        fetch = Fetch((f"127.0.0.1:{site.port}",))
        provider = ScriptedProvider(by_step((call("orders"), call("broken")), (say("Done."),)))
        with capture_logs() as logs:
            core = await make_core(provider, tool_ports=ToolPorts(fetch=fetch))
            await core.tools.secrets.put("KEY", VALUE)
            for name in ("orders", "broken"):
                url = site.url(f"/{name}", "127.0.0.1")
                config = {"url": url, "query": {"key": "{{secret:KEY}}"}, "headers": {"X-Key": "k"}}
                await core.tools.definitions.create(ToolDefinition(name=name, description="It.", config=config))
            repeated = " | ".join(forms(VALUE)).encode()
            query = f"?key={quote(VALUE, safe='')}"
            site.answers[f"/orders{query}"] = ok(repeated, TEXT)
            site.answers[f"/broken{query}"] = ok(repeated, TEXT, status="500 Oops")
            await core.agents.create(Definition(name="shop", instructions="", tools=("orders", "broken")))
            session = await open_session(core, agent="shop")
            stage = Stage(core, provider, session)
            async with stage.reader() as reader:
                await stage.play()
                await reader.until(lambda event: event.type == "run.completed")
            done = await stage.said(ToolCompleted)
        assert sorted(each.outcome for each in done) == ["done", "failed"]  # they run at once
        assert [each for each in done if text_of(each.parts).count("[secret KEY]") < 3] == []
        seen = repr([(event.type, getattr(event, "raw", getattr(event, "body", None))) for event in reader.events])
        files = b"".join(path.read_bytes() for path in database_path.parent.iterdir() if path.is_file())
        for form in forms(VALUE):
            assert form not in seen
            assert form not in repr(logs)
            assert form.encode() not in files
        assert len(site.requests) == 2
        await fetch.close()


@pytest.mark.parametrize(("idempotent", "sent", "outcome"), [(True, 2, "done"), (False, 1, "unknown")])
async def test_a_write_that_a_crash_cut_is_repeated_only_under_its_key(
    open_database: OpenDatabase, idempotent: bool, sent: int, outcome: str
):
    """The process dies while the server works: the next one sends the same key, or, where that means nothing, not."""
    async with serving() as site:
        keys: list[str] = []
        first = asyncio.Event()

        async def pay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            keys.append(site.requests[-1].headers["idempotency-key"])
            if len(keys) == 1:
                first.set()
                await reader.read()
            writer.write(ok(b"paid", TEXT))

        site.answers["/pay"] = pay
        definition = ToolDefinition(
            name="pay",
            description="Pay.",
            idempotent=idempotent,
            config={"url": site.url("/pay", "127.0.0.1"), "method": "POST"},
        )
        database = CrashingDatabase(open_database())
        core, fetch = _core(database, site)
        await core.start()
        await core.tools.definitions.create(definition)
        await core.agents.create(Definition(name="payer", instructions="", tools=("pay",)))
        session = await open_session(core, agent="payer")
        await send(core, session, "Pay")
        await first.wait()
        database.crashed.set()  # from here on nothing is written, as by a process that was killed
        await core.stop(grace=0.1)
        await fetch.close()
        core, fetch = _core(open_database(), site)
        await core.start()
        (run,) = (await core.runs()).items
        assert (await core.settled(run.id, timeout=PATIENCE)).status == "completed"
        (done,) = await Stage(core, ScriptedProvider([]), session).said(ToolCompleted)
        assert (len(keys), set(keys), done.outcome) == (sent, {done.call}, outcome)
        await core.stop()
        await fetch.close()


def _core(database: Any, site: Site) -> tuple[Core, Fetch]:
    fetch = Fetch((f"127.0.0.1:{site.port}",))
    provider = ScriptedProvider(by_step((call("pay"),), (say("Done."),)))
    core = Core(
        database,
        providers={"scripted": provider},
        tools={},
        default_model="scripted",
        secrets=SECRETS,
        tool_ports=ToolPorts(fetch=fetch),
    )
    return core, fetch
