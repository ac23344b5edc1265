"""Stored secrets: sealed, listed by name, used as they are now, and kept while something refers to them."""

import pytest
from sqlalchemy import Connection, text

from agent_core.agents import ToolDefinition
from agent_core.core import Core
from agent_core.errors import Conflict, InvalidInput, NotFound
from agent_core.net.fetch import Fetch
from agent_core.runtime.tools import ToolPorts
from agent_core.secrets import Secrets, Unreadable
from agent_core.store.servers import SECRET
from tests.conftest import MakeCore

VALUE = "s3cr3t-välue"


async def test_a_secret_is_sealed_and_a_new_value_holds_at_once_in_every_process(make_core: MakeCore):
    """Its value is in no row, and what one process sets the next call of another one has."""
    core, other = await make_core(), await make_core()
    made = await core.tools.secrets.put("KEY", VALUE)
    assert await other.tools.secrets.values(["KEY"]) == {"KEY": VALUE}
    await other.tools.secrets.put("KEY", "another value")
    assert await core.tools.secrets.values(["KEY"]) == {"KEY": "another value"}
    (listed,) = (await core.tools.secrets.list()).items
    assert (listed.name, listed.created_at) == ("KEY", made.created_at)

    def stored(connection: Connection) -> str:
        return repr(connection.execute(text("select * from secret")).all())

    assert "another value" not in await core._store.read(stored)


async def test_one_that_is_missing_is_named_with_the_remedy(make_core: MakeCore):
    """Who needs a secret that is not there reads how an operator sets it."""
    core = await make_core()
    with pytest.raises(NotFound, match="parley secrets set ABSENT"):
        await core.tools.secrets.values(["ABSENT"])
    assert await core.tools.secrets.values([]) == {}


@pytest.mark.parametrize(("name", "value", "path"), [("a b", "v", "name"), ("", "v", "name"), ("a", "", "value")])
async def test_one_that_cannot_be_referred_to_is_refused(make_core: MakeCore, name: str, value: str, path: str):
    """Names are those that a reference can have, and a value is not empty."""
    core = await make_core()
    with pytest.raises(InvalidInput) as refused:
        await core.tools.secrets.put(name, value)
    assert refused.value.path == path


async def test_one_that_is_used_stays(make_core: MakeCore):
    """A secret that a tool refers to is not deleted, and the refusal names the tool; nor is a name taken twice."""
    fetch = Fetch()
    core: Core = await make_core(tool_ports=ToolPorts(fetch=fetch))
    secrets = core.tools.secrets
    await secrets.put("KEY", VALUE)
    config = {"url": "https://api.example.com/x", "headers": {"X-Key": "{{secret:KEY}}"}}
    await core.tools.definitions.create(ToolDefinition(name="orders", description="Orders.", config=config))
    with pytest.raises(Conflict, match="the tool `orders`"):
        await secrets.delete("KEY")
    with pytest.raises(Conflict, match="already"):
        await secrets.put("KEY", "v", replace=False)
    await core.tools.definitions.update("orders", {"config": {"url": "https://api.example.com/x"}})
    await secrets.delete("KEY")
    with pytest.raises(NotFound):
        await secrets.delete("KEY")
    await fetch.close()


async def test_one_that_another_key_sealed_is_named(make_core: MakeCore):
    """After a change of PARLEY_SECRET_KEY, and when a row was moved to another name, a secret is not opened."""
    core = await make_core()
    await core.tools.secrets.put("KEY", VALUE)
    other = await make_core(secrets=Secrets(b"another key of the tests, 32 by."))
    with pytest.raises(Unreadable, match="`KEY` cannot be opened"):
        await other.tools.secrets.values(["KEY"])
    await core._store.write(lambda connection: connection.execute(SECRET.update().values(name="MOVED")))
    with pytest.raises(Unreadable, match="MOVED"):
        await core.tools.secrets.values(["MOVED"])
