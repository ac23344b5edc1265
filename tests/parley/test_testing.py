"""`parley.testing` runs the agents of a project from its files, with a script in the place of the model."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_core.errors import AlreadyDecided, ConfigError, InvalidInput, NotAnApprover
from agent_core.messages import Actor
from app.trial import make_tables
from parley import CallContext, tool
from parley.testing import ScriptExhausted, by_step, call, fail, open_project, say

TOOLS = '''
from parley import CallContext, tool


@tool
def whoami(context: CallContext) -> str:
    """Say who asks."""
    return f"{context.actor.id} of {context.tool_context.get('team')}"


@tool(effect="write")
def pay(amount: int) -> str:
    """Pay.

    Args:
        amount: How much.
    """
    return f"paid {amount}"
'''
CLERK = """
name: clerk
instructions: Be brief.
model: anthropic:a-model-without-a-key
tools: [whoami, pay]
hooks:
  - {event: PreToolUse, type: approval, matcher: pay, config: {responders: [operators, "actor:eve"], edit: true}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "agents/clerk.yaml").write_text(CLERK, "utf-8")
    (tmp_path / "tools/desk.py").write_text(TOOLS, "utf-8")
    return tmp_path


async def test_an_agent_is_asked_as_a_person_with_what_a_channel_knows(folder: Path):
    """The tools get the actor and the tool context, and the model is given their results."""
    async with open_project(folder, [[call("whoami")], [say("You are Ann.")]]) as project:
        reply = await project.ask("Who am I?", actor="ann", tool_context={"team": "sales"})
        assert project.model.calls == 2
    assert (reply.status, reply.text, reply.error) == ("completed", "You are Ann.", None)
    assert [(each.name, each.outcome, each.text) for each in reply.calls] == [("whoami", "done", "ann of sales")]


async def test_a_conversation_continues(folder: Path):
    """A second message in the same session shows the model the first one and its answer."""
    async with open_project(folder, [[say("One.")], [say("Two.")]]) as project:
        first = await project.ask("Say one.")
        second = await project.ask("And two.", session=first.session)
        shown = project.model.requests[1].messages
    assert (second.session, second.text) == (first.session, "Two.")
    assert [entry.message.role for entry in shown] == ["user", "assistant", "user"]


async def test_an_operator_decides_and_may_correct_the_arguments(folder: Path):
    """A call that waits is an open approval; what is approved runs with the corrected arguments."""
    async with open_project(folder, by_step([call("pay", amount=5)], [say("Done.")])) as project:
        asked = await project.ask("Pay 5.")
        assert (asked.status, asked.calls[0].outcome) == ("waiting", None)
        reply = await project.approve(asked.approvals[0], arguments={"amount": 4})
        assert (reply.text, reply.approvals) == ("Done.", ())
        assert (reply.calls[0].arguments, reply.calls[0].text) == ({"amount": 4}, "paid 4")
        with pytest.raises(AlreadyDecided):
            await project.deny(asked.approvals[0])


async def test_only_those_who_are_asked_decide(folder: Path):
    """An actor whom the policy does not name is refused, and arguments that do not fit run nothing."""
    async with open_project(folder, by_step([call("pay", amount=5)], [say("No.")])) as project:
        asked = await project.ask("Pay 5.", actor="ann")
        with pytest.raises(NotAnApprover):
            await project.approve(asked.approvals[0], by="ann")
        with pytest.raises(InvalidInput):
            await project.approve(asked.approvals[0], arguments={"amount": "much"})
        reply = await project.deny(asked.approvals[0], by=Actor("eve", "user"), reason="Too much.")
    assert (reply.calls[0].outcome, reply.text) == ("denied", "No.")
    assert "Too much." in reply.calls[0].text


async def test_a_script_that_is_too_short_fails_the_test_at_once(folder: Path):
    """A model call without an answer raises what is missing, and is not tried again."""
    async with open_project(folder, [[call("whoami")]]) as project:
        with pytest.raises(ScriptExhausted, match="asked 2 times, and the script has 1 answer"):
            await project.ask("Who am I?")
        assert project.model.calls == 2


async def test_a_model_that_fails_is_a_reply_with_an_error(folder: Path):
    """A run that failed has the code and the words that people see."""
    async with open_project(folder, [[fail("auth", retryable=False)]]) as project:
        reply = await project.ask("Hello")
    assert reply.status == "failed"
    assert reply.error is not None
    assert reply.error.code == "provider_error"


async def test_an_agent_is_named_where_there_are_several(folder: Path):
    """Without a name the only agent is asked, or the one called `assistant`."""
    (folder / "agents/second.yaml").write_text("{name: second, instructions: Be brief.}", "utf-8")
    async with open_project(folder, [[say("Hello.")]]) as project:
        with pytest.raises(ConfigError, match="there are: `clerk`, `second`"):
            await project.ask("Hello")
        assert (await project.ask("Hello", agent="second")).text == "Hello."


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("agents/clerk.yaml", "{name: clerk}", "instructions"),
        ("tools/desk.py", "def pay(:", r"desk\.py:1"),
        ("tools/desk.py", "", "there is no tool `whoami`"),
    ],
)
async def test_a_broken_file_is_named(folder: Path, path: str, text: str, said: str):
    """A project that `parley serve` would refuse is refused, with the file."""
    (folder / path).write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=said):
        async with open_project(folder, []):
            pass


async def test_an_http_tool_of_an_internal_host_is_allowed_as_when_it_is_served(folder: Path):
    """PARLEY_FETCH_ALLOW holds in tests too, here from the project's own `.env`."""
    (folder / "tools/wiki.yaml").write_text(
        "name: wiki\ndescription: Read.\nconfig: {url: 'http://10.0.0.7:8080/x'}\n", "utf-8"
    )
    with pytest.raises(ConfigError, match=r"10\.0\.0\.7"):
        async with open_project(folder, []):
            pass
    (folder / ".env").write_text("PARLEY_FETCH_ALLOW=10.0.0.7:8080\n", "utf-8")
    async with open_project(folder, [[say("Hello.")]]) as project:
        assert (await project.ask("Hello")).text == "Hello."


async def test_a_folder_without_agents_is_refused(tmp_path: Path):
    """The error says what is expected."""
    with pytest.raises(ConfigError, match="give `open_project` the folder of the project"):
        async with open_project(tmp_path, []):
            pass


def test_the_tables_are_those_that_migrations_make(template: Path, tmp_path: Path):
    """The database of a test has the columns and indexes of a migrated one."""
    make_tables(tmp_path / "made.db")
    assert shape(tmp_path / "made.db") == shape(template)


def shape(path: Path) -> dict[str, object]:
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found: dict[str, object] = {}
        for table in set(tables) - {"alembic_version"}:
            columns = [row[1:4] for row in database.execute(f"PRAGMA table_info({table})")]
            indexes = [row[1:3] for row in database.execute(f"PRAGMA index_list({table})") if row[3] == "c"]
            found[table] = sorted(columns), sorted(indexes)
    return found


SHOP = '''
from datetime import date
from decimal import Decimal

from parley import NewRender, chart, table, tool


@tool
def orders() -> NewRender:
    """Show the orders."""
    rows = [{"id": "A-1", "total": Decimal("12.50"), "on": date(2026, 2, 15), "secret": 1}]
    total = {"key": "total", "label": "Total", "format": "currency:EUR"}
    return table(rows, ["id", total, {"key": "on", "format": "date"}], title="Orders")


@tool
def trend() -> NewRender:
    """Show the trend."""
    rows = [{"month": month, "orders": n} for n, month in enumerate(["Jan", "Feb"])]
    encoding = {"x": {"field": "month", "type": "ordinal"}, "y": {"field": "orders", "type": "quantitative"}}
    return chart({"mark": "line", "data": {"values": rows}, "encoding": encoding, "title": "Orders by month"})


@tool
def broken() -> NewRender:
    """Show too much."""
    return table([{"n": n} for n in range(501)])
'''


async def test_a_tool_shows_a_table_and_a_chart(folder: Path):
    """`table` and `chart` make what surfaces draw, with the text that the model reads; too many rows are an error."""
    (folder / "tools/shop.py").write_text(SHOP, "utf-8")
    (folder / "agents/seller.yaml").write_text(
        "name: seller\ninstructions: Sell.\ntools: [orders, trend, broken]\n", "utf-8"
    )
    script = [[call("orders"), call("trend"), call("broken")], [say("There.")]]
    async with open_project(folder, script) as project:
        orders, trend, broken = (await project.ask("Show them.", agent="seller")).calls
    (shown,) = orders.renders
    assert (shown.kind, shown.title, orders.text) == ("table", "Orders", shown.text)
    assert shown.text == "id    Total  on\n---  ------  ------------\nA-1  €12.50  Feb 15, 2026"
    assert shown.payload["rows"] == [{"id": "A-1", "total": "12.50", "on": "2026-02-15"}]
    (drawn,) = trend.renders
    assert (drawn.kind, drawn.title, drawn.payload["plain"]["type"]) == ("chart", "Orders by month", "line")
    assert (broken.outcome, broken.renders) == ("failed", ())
    assert "501 rows, at most 500 can be shown" in broken.text


SERVERS = (
    '{"mcpServers": {"desk": {"url": "${DESK_URL}/mcp", "headers": {"Authorization": "Bearer ${DESK_TOKEN}"}},'
    ' "samples": {"command": "python", "args": ["-m", "agent_core.testing.mcp"]}}}'
)


@tool(effect="write")
def close(ticket: int, context: CallContext) -> str:
    """Close a ticket."""
    return f"closed {ticket} for {context.actor.id}"


@pytest.fixture
def served(folder: Path) -> Path:
    """A project with an agent of all tools of two MCP servers, of which no variable is set."""
    (folder / "mcp.json").write_text(SERVERS, "utf-8")
    (folder / "agents/helper.yaml").write_text(
        "name: helper\ninstructions: Help.\nmcp_servers: [desk, samples]\ntools: [mcp__samples__add]\n"
        "hooks: [{event: PreToolUse, type: approval, matcher: mcp__samples__delete}]\n",
        "utf-8",
    )
    return folder


async def test_a_project_with_mcp_servers_passes_its_tests(served: Path):
    """The servers of mcp.json are known to the agents and not connected to; what is played is called as theirs is."""
    script = [[call("mcp__desk__close", ticket=7)], [say("Closed.")]]
    async with open_project(served, script, servers={"desk": [close]}) as project:
        reply = await project.ask("Close 7.", agent="helper", actor="ann")
        offered = {each.name for each in project.model.requests[0].snapshot.tools}
    assert (reply.status, [each.text for each in reply.calls]) == ("completed", ["closed 7 for ann"])
    assert "mcp__desk__close" in offered
    assert not {name for name in offered if name.startswith("mcp__samples")}


async def test_servers_that_no_test_plays_give_no_tools(served: Path):
    """Without `servers` an agent works as when its servers are down."""
    async with open_project(served, [[say("Hello.")]]) as project:
        assert (await project.ask("Hello", agent="helper")).text == "Hello."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "mcp.json, line 1"),
        ('{"mcpServers": {"desk": {}}}', "mcpServers.desk.url"),
        ('{"mcpServers": {}}', "there is no MCP server `desk`"),
    ],
)
async def test_a_broken_file_of_servers_is_named(served: Path, text: str, said: str):
    """A file of servers that `parley serve` refuses is refused in tests, and so is an agent of a server it has not."""
    (served / "mcp.json").write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=said):
        async with open_project(served, []):
            pass


async def test_a_server_to_play_must_be_in_the_file(served: Path):
    """A test that plays a server of another name is wrong, and says which there are."""
    with pytest.raises(ConfigError, match=r"no MCP server `dsk` in .*: `desk`, `samples`"):
        async with open_project(served, [], servers={"dsk": [close]}):
            pass
