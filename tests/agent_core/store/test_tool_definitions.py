"""Defined tools: stored, versioned, seen by other processes, frozen for conversations and used as they are now."""

import asyncio
from typing import Any

import msgspec
import pytest
from sqlalchemy import update
from structlog.testing import capture_logs

from agent_core.agents import Definition, ToolDefinition
from agent_core.core import Core
from agent_core.errors import Conflict, InvalidInput, ManagedByFile, NotFound, ToolInUse
from agent_core.events import ToolCompleted
from agent_core.messages import text_of
from agent_core.store import tools as definitions
from agent_core.testing import ScriptedProvider, call, say, step_of
from agent_core.tools.functions import tool
from tests.agent_core.scenes import log_of, only, open_session, say_and_wait
from tests.conftest import MakeCore


@tool(concurrency_safe=True)
async def greet(name: str, mood: str, times: int = 1) -> dict[str, Any]:
    """Greet someone."""
    return {"said": f"{mood}, {name}", "times": times}


HELLO = ToolDefinition(
    name="hello", kind="python", description="Say hello.", config={"tool": "greet"}, preset={"mood": "Glad"}
)


@pytest.fixture
async def core(make_core: MakeCore) -> Core:
    return await make_core(tools=(greet,))


async def test_each_change_is_a_version_and_the_old_ones_are_kept(core: Core):
    """A change makes the next version with its own fields alone changed; one that changes nothing makes none."""
    tools = core.tools.definitions
    made = await tools.create(HELLO)
    changed = await tools.update("hello", {"description": "Greet them.", "preset": {"times": 2, "mood": "So"}})
    assert changed == msgspec.structs.replace(
        made, version=2, description="Greet them.", preset={"times": 2, "mood": "So"}
    )
    assert await tools.update(made.id, {"description": "Greet them."}) == changed
    found = await tools.versions(made.id)
    assert [(each.version, each.definition) for each in found] == [
        (2, msgspec.structs.replace(HELLO, description="Greet them.", preset={"times": 2, "mood": "So"})),
        (1, HELLO),
    ]
    await tools.delete("hello")
    with pytest.raises(NotFound):
        await tools.get(made.id)


async def test_changes_at_once_are_both_kept(core: Core):
    """Of two changes of other fields at the same time none is lost, whichever comes first."""
    tools = core.tools.definitions
    await tools.create(HELLO)
    await asyncio.gather(tools.update("hello", {"title": "Hello"}), tools.update("hello", {"timeout_s": 3.0}))
    found = await tools.get("hello")
    assert (found.version, found.title, found.timeout_s) == (3, "Hello", 3.0)


async def test_of_two_at_once_one_gets_the_name(make_core: MakeCore, core: Core):
    """Two processes that define one name at the same time: one is refused with the field."""
    other = await make_core(tools=(greet,))
    done = await asyncio.gather(
        core.tools.definitions.create(HELLO), other.tools.definitions.create(HELLO), return_exceptions=True
    )
    (refused,) = (each for each in done if isinstance(each, InvalidInput))
    assert refused.path == "name"
    assert "choose another name" in str(refused)


async def test_another_process_has_a_new_tool_when_it_is_asked_for(make_core: MakeCore, core: Core):
    """An agent and a call that name a tool which another process has just defined are not refused."""
    answers = [[call("hello", name="Ann")], [say("Done.")]]
    other = await make_core(ScriptedProvider(answers), tools=(greet,))
    await core.tools.definitions.create(HELLO)
    await other.agents.create(Definition(name="host", instructions="Greet.", tools=("hello",)))
    session = await open_session(other, agent="host")
    await say_and_wait(other, session, "Hi")
    (done,) = only(await log_of(other, session), ToolCompleted)
    assert (done.outcome, text_of(done.parts)) == ("done", '{"said":"Glad, Ann","times":1}')


async def test_a_conversation_keeps_what_it_saw_and_calls_use_what_is_now(make_core: MakeCore):
    """The model's schema is that of the snapshot after a change; the call has the new preset."""
    requests: list[Any] = []

    def model(request: Any) -> list[Any]:
        requests.append(request)
        return [say("Done.")] if step_of(request) else [call("hello", name="Ann")]

    core = await make_core(ScriptedProvider(model), tools=(greet,))
    tools = core.tools.definitions
    await tools.create(HELLO)
    await core.agents.create(Definition(name="host", instructions="Greet.", tools=("hello",)))
    session = await open_session(core, agent="host")
    await say_and_wait(core, session, "Hi")
    await tools.update("hello", {"description": "Other words.", "preset": {"mood": "Sad"}})
    await say_and_wait(core, session, "Again")
    seen = {spec.description for request in requests for spec in request.snapshot.tools if spec.name == "hello"}
    assert seen == {"Say hello."}
    assert [set(spec.parameters["properties"]) for spec in requests[0].snapshot.tools if spec.name == "hello"] == [
        {"name", "times"}
    ]
    texts = [text_of(done.parts) for done in only(await log_of(core, session), ToolCompleted)]
    assert texts == ['{"said":"Glad, Ann","times":1}', '{"said":"Sad, Ann","times":1}']


async def test_a_tool_that_an_agent_names_stays(core: Core):
    """Deleting or renaming it is refused with the agents' names; a glob holds nothing."""
    tools = core.tools.definitions
    await tools.create(HELLO)
    for name, listed in (("anna", ("hello",)), ("berta", ("hel*",)), ("carl", ("greet", "hello"))):
        await core.agents.create(Definition(name=name, instructions="Greet.", tools=listed))
    for refused in (tools.delete("hello"), tools.update("hello", {"name": "hi"})):
        with pytest.raises(ToolInUse, match="`anna`, `carl`"):
            await refused
    for name in ("anna", "carl"):
        await core.agents.update(name, {"tools": []})
    assert (await tools.update("hello", {"name": "hi"})).name == "hi"
    await tools.delete("hi")


async def test_files_define_tools_and_take_them_away(core: Core):
    """A tool of a file cannot be changed elsewhere, an equal one makes no version, one whose file is gone goes."""
    tools = core.tools.definitions
    await tools.sync_files([HELLO])
    made = await tools.get("hello")
    assert (made.version, made.source) == (1, "file")
    await tools.sync_files([HELLO])
    assert await tools.get("hello") == made
    for refused in (tools.update("hello", {"title": "No"}), tools.delete("hello")):
        with pytest.raises(ManagedByFile, match="comes from a file"):
            await refused
    await tools.sync_files([], whole=False)
    await tools.sync_files([msgspec.structs.replace(HELLO, title="Hello"), msgspec.structs.replace(HELLO, name="own")])
    assert [(await tools.get(name)).version for name in ("hello", "own")] == [2, 1]
    await tools.sync_files([])
    assert [each.name for each in (await tools.list()).items] == ["greet"]


async def test_what_cannot_work_is_not_stored(core: Core):
    """A jq program that does not compile, and a secret that a wrapped tool would get as it is written."""
    tools = core.tools.definitions
    for field, changes in (("output", {"output": "jq:.a ["}), ("preset", {"preset": {"mood": "{{secret:KEY}}"}})):
        with pytest.raises(InvalidInput) as refused:
            await tools.create(msgspec.structs.replace(HELLO, **changes))
        assert refused.value.path == field
    await tools.create(HELLO)
    with pytest.raises(InvalidInput) as refused:
        await tools.update("hello", {"output": "jq:.a ["})
    assert refused.value.path == "output"
    assert (await tools.update("hello", {"output": "jq:.said"})).version == 2


async def test_what_a_newer_version_stored_is_read_without_its_fields(core: Core):
    """A definition with a field that this version does not know is used without it."""
    tools = core.tools.definitions
    await tools.create(HELLO)
    more = msgspec.json.encode({**msgspec.to_builtins(HELLO), "colour": "red"})
    await core._store.write(lambda connection: connection.execute(definitions.VERSION.update().values(definition=more)))
    assert (await tools.versions("hello"))[0].definition == HELLO


async def test_a_tool_that_this_version_cannot_read_stops_no_other(core: Core):
    """A kind of a newer version is left out and logged, and a file of its name leaves it as it is."""
    tools = core.tools.definitions
    await tools.create(msgspec.structs.replace(HELLO, name="newer"))
    content = msgspec.json.encode({**msgspec.to_builtins(HELLO), "name": "newer", "timeout_s": "long"})
    await core._store.write(
        lambda connection: connection.execute(update(definitions.VERSION).values(definition=content)).rowcount
    )
    with capture_logs() as logs:
        await tools.sync_files([HELLO, msgspec.structs.replace(HELLO, name="newer")])
        assert [each.name for each in (await tools.list()).items] == ["greet", "hello"]
        with pytest.raises(Conflict, match="`newer` cannot be read by this version"):
            await core._store.read(definitions.find, "newer")
    assert {line["tool"] for line in logs if line["event"] == "tools.not_readable"} == {"newer"}
