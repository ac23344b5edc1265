"""The roster: agents are created, versioned, found, and kept in step with their files; nothing enters unchecked."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import pytest
from msgspec import structs
from sqlalchemy import select
from structlog.testing import capture_logs

from agent_core.agents import Controls, Definition, Limits, ToolSpec
from agent_core.core import Core
from agent_core.errors import InvalidInput, ManagedByFile, NotFound, SessionOpen
from agent_core.events import StepStarted
from agent_core.messages import text_of
from agent_core.store import catalog
from agent_core.testing import ScriptedProvider, say
from agent_core.tools.base import Tool
from agent_core.tools.functions import tool
from agent_core.tools.toolset import Scope
from channels.slack.settings import SETTINGS, Slack
from channels.web.settings import Web
from tests.agent_core.scenes import log_of, only, open_session, say_and_wait
from tests.conftest import ANN, MakeCore
from tests.polling import PATIENCE

pytestmark = pytest.mark.sampled(4)


@tool(concurrency_safe=True)
async def look(what: str) -> str:
    """Look something up."""
    return what


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider(lambda request: [say(request.snapshot.instructions)])


@pytest.fixture
async def core(make_core: MakeCore, provider: ScriptedProvider) -> Core:
    return await make_core(provider, tools=(look,))


def named(name: str, **fields: Any) -> Definition:
    return Definition(**{"name": name, "instructions": f"I am {name}.", **fields})


SHOWN = msgspec.json.decode(msgspec.json.encode(Web(show_tools="full")))


async def names(core: Core) -> list[str]:
    return [agent.definition.name for agent in (await core.agents.list()).items]


async def test_an_agent_is_found_by_id_and_by_name(core: Core):
    """A new agent is version 1, made by the API, and answers to its id and to its name."""
    made = await core.agents.create(named("anna", tools=("look",), channels={"web": {"show_tools": "full"}}))
    assert (made.version, made.source) == (1, "api")
    assert made.definition == named("anna", tools=("look",), channels={"web": SHOWN})
    assert await core.agents.get(made.id) == await core.agents.get("anna") == made
    with pytest.raises(NotFound, match="agent"):
        await core.agents.get("unknown")


async def test_agents_are_listed_oldest_first_page_by_page(core: Core):
    """Every agent comes once, in the order in which they were made."""
    for n in range(5):
        await core.agents.create(named(f"a{n}"))
    page = await core.agents.list(limit=2)
    found = [agent.definition.name for agent in page.items]
    while page.next_cursor:
        page = await core.agents.list(limit=2, cursor=page.next_cursor)
        found += [agent.definition.name for agent in page.items]
    assert found == ["assistant", "a0", "a1", "a2", "a3", "a4"]
    with pytest.raises(InvalidInput, match="cursor"):
        await core.agents.list(cursor="newest")


async def test_a_change_is_a_new_version(core: Core):
    """Changing fields makes the next version; what is not named stays; a change of nothing is none."""
    made = await core.agents.create(named("anna", tools=("look",)))
    changed = await core.agents.update("anna", {"instructions": "Be kind.", "controls": {"max_steps": 3}})
    assert (changed.id, changed.version) == (made.id, 2)
    assert changed.definition == named("anna", tools=("look",), instructions="Be kind.", controls=Controls(max_steps=3))
    assert (await core.agents.update(made.id, {"instructions": "Be kind."})).version == 2
    renamed = await core.agents.update(made.id, {"name": "berta"})
    assert renamed.version == 3
    assert await core.agents.get("berta") == renamed
    with pytest.raises(NotFound):
        await core.agents.get("anna")
    with pytest.raises(NotFound):
        await core.agents.update("unknown", {})


async def test_two_changes_at_once_both_count(core: Core, monkeypatch: pytest.MonkeyPatch):
    """A change that is looked at while another one is written is built upon that one, and looked at with it."""
    await core.agents.create(named("anna", controls=Controls(active_tools=("look",)), tools=("look",)))
    loop, check = asyncio.get_running_loop(), core.agents.check
    others = [{"instructions": "Be kind."}, {"tools": [], "controls": {"active_tools": []}}]

    def checked(definition: Definition, known: Collection[str], **more: bool) -> None:
        monkeypatch.setattr(core.agents, "check", check)
        check(definition, known, **more)
        asyncio.run_coroutine_threadsafe(core.agents.update("anna", others.pop(0)), loop).result(timeout=PATIENCE)

    monkeypatch.setattr(core.agents, "check", checked)
    changed = await core.agents.update("anna", {"controls": {"max_steps": 3}})
    assert (changed.version, changed.definition.instructions) == (3, "Be kind.")
    monkeypatch.setattr(core.agents, "check", checked)
    with pytest.raises(InvalidInput, match="the agent has no tool `look`"):
        await core.agents.update("anna", {"controls": {"tool_choice": {"tool": "look"}}})


async def test_a_change_within_a_group_keeps_the_rest_of_it(core: Core):
    """A limit or a control that a change does not name stays; null takes one back."""
    begun = {"controls": Controls(max_steps=3, tool_choice="none"), "limits": Limits(max_context_messages=9)}
    await core.agents.create(named("anna", **begun))
    changed = await core.agents.update("anna", {"controls": {"max_steps": 5}, "limits": {}, "web": {}})
    assert changed.definition == named("anna", **{**begun, "controls": Controls(max_steps=5, tool_choice="none")})
    changed = await core.agents.update("anna", {"controls": {"tool_choice": None}})
    assert changed.definition.controls == Controls(max_steps=5)


async def test_an_agent_whose_tool_is_gone_gets_an_error(core: Core, make_core: MakeCore, provider: ScriptedProvider):
    """After a start without one of its tools an agent opens no session and says which tool; its old sessions go on."""
    await core.agents.create(named("anna", tools=("look",)))
    old = await open_session(core, agent="anna")
    await core.stop()
    again = await make_core(provider)
    with pytest.raises(InvalidInput, match="`anna` uses the tool `look`, which is not here"):
        await again.open_session(agent="anna", actor=ANN)
    await say_and_wait(again, old, "Who?")
    assert (await again.runs(session=old)).items[0].text == "I am anna."
    await again.agents.update("anna", {"tools": []})
    await again.open_session(agent="anna", actor=ANN)


async def test_a_session_keeps_the_version_it_began_with(core: Core, make_core: MakeCore, provider: ScriptedProvider):
    """An old session answers as its version says, before and after a restart; a new one as the newest says."""
    await core.agents.create(named("anna"))
    old = await open_session(core, agent="anna")
    await say_and_wait(core, old, "Who?")
    await core.agents.update("anna", {"instructions": "I am new.", "controls": {"max_steps": 7}})
    new = await open_session(core, agent="anna")
    for session in (old, new):
        await say_and_wait(core, session, "Who?")
    await core.stop()
    again = await make_core(provider, tools=(look,))
    for session in (old, new):
        await say_and_wait(again, session, "Who?")
    said = {
        session: [text_of(m.parts) for m in (await again.messages(session)).items if m.role == "assistant"]
        for session in (old, new)
    }
    assert said == {old: ["I am anna."] * 3, new: ["I am new."] * 2}
    assert {run.agent_version for run in (await again.runs(session=old)).items} == {1}
    assert {run.agent_version for run in (await again.runs(session=new)).items} == {2}
    steps = [only(await log_of(again, session), StepStarted)[0].controls for session in (old, new)]
    assert [controls and controls["max_steps"] for controls in steps] == [25, 7]


async def test_a_name_is_taken_once(core: Core):
    """A second agent of a name is refused, when made, renamed or made at the same moment, and leaves nothing."""
    await core.agents.create(named("anna"))
    await core.agents.create(named("berta"))
    with pytest.raises(InvalidInput, match="`anna` is there already"):
        await core.agents.create(named("anna"))
    with pytest.raises(InvalidInput, match="`anna` is there already"):
        await core.agents.update("berta", {"name": "anna"})
    made = await asyncio.gather(*(core.agents.create(named("cleo")) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(result, InvalidInput) for result in made) == 4
    assert await names(core) == ["assistant", "anna", "berta", "cleo"]
    assert (await core.agents.get("berta")).version == 1


async def test_an_agent_with_sessions_stays(core: Core):
    """An agent is deleted when no session of it is left; then its name is free again."""
    made = await core.agents.create(named("anna"))
    session = await open_session(core, agent="anna")
    await say_and_wait(core, session, "Who?")
    with pytest.raises(SessionOpen, match="anna"):
        await core.agents.delete("anna")
    assert await core.agents.get("anna") == made
    await core.delete_session(session)
    await core.agents.delete("anna")
    for lost in (core.agents.get("anna"), core.agents.delete(made.id), open_session(core, agent="anna")):
        with pytest.raises(NotFound):
            await lost
    assert (await core.agents.create(named("anna"))).id != made.id


async def test_agents_from_files_are_read_only(core: Core):
    """An agent of a file is changed in the file alone."""
    await core.agents.sync_files([named("filed")])
    filed = await core.agents.get("filed")
    assert (filed.source, filed.version) == ("file", 1)
    for refused in (core.agents.update("filed", {"instructions": "x"}), core.agents.delete(filed.id)):
        with pytest.raises(ManagedByFile, match="file"):
            await refused
    assert await core.agents.get("filed") == filed
    with pytest.raises(InvalidInput, match="already"):
        await core.agents.create(named("filed"))


async def test_a_changed_file_is_a_new_version(core: Core):
    """At a start each changed file makes a version, an unchanged one none; sessions keep theirs."""
    await core.agents.sync_files([named("one"), named("two")])
    session = await open_session(core, agent="one")
    await core.agents.sync_files([named("one", instructions="I changed."), named("two"), named("three")])
    versions = {agent.definition.name: agent.version for agent in (await core.agents.list()).items}
    assert versions == {"assistant": 1, "one": 2, "two": 1, "three": 1}
    await say_and_wait(core, session, "Who?")
    assert text_of((await core.messages(session)).items[-1].parts) == "I am one."


async def test_an_agent_whose_file_is_gone_continues(core: Core):
    """Without its file an agent is an ordinary one, and with it a file's again; sessions notice neither."""
    await core.agents.sync_files([named("filed")])
    session = await open_session(core, agent="filed")
    await core.agents.sync_files([])
    assert (await core.agents.get("filed")).source == "api"
    await say_and_wait(core, session, "Who?")
    assert (await core.agents.update("filed", {"instructions": "Mine."})).version == 2
    await core.agents.sync_files([named("filed")])
    filed = await core.agents.get("filed")
    assert (filed.source, filed.version, filed.definition) == ("file", 3, named("filed"))


BAD = [
    pytest.param({"name": ""}, "name", id="no name"),
    pytest.param({"name": "   "}, "name", id="a blank name"),
    pytest.param({"name": "x" * 101}, "name", id="a long name"),
    pytest.param({"name": "a/b"}, "name", id="a slash in the name"),
    pytest.param({"name": ".."}, "name`: `..` cannot be part of a path", id="a name that is a path"),
    pytest.param(
        {"name": "agent_x"}, "name`: `agent_x` begins with `agent_`, as ids do; choose", id="a name like an id"
    ),
    pytest.param({"instructions": "x" * 200_001}, "instructions", id="endless instructions"),
    pytest.param({"tools": ("look", "shell")}, "tools`: there is no tool `shell`; the tools are: look", id="a tool"),
    pytest.param({"model": "other"}, "model`: there is no provider `other` here", id="model"),
    pytest.param({"controls": {"model": "other"}}, "controls.model", id="a model of the controls"),
    pytest.param({"controls": {"max_steps": 0}}, "controls.max_steps", id="no steps"),
    pytest.param({"controls": {"max_steps": 201}}, "controls.max_steps", id="endless steps"),
    pytest.param({"limits": {"max_context_messages": 1}}, "limits.max_context_messages", id="a window of one"),
]
MALFORMED = [
    pytest.param({"colour": "blue"}, "colour", id="an unknown field"),
    pytest.param({"tools": "look"}, "tools", id="tools that are no list"),
    pytest.param({"controls": {"max_steps": "many"}}, "max_steps", id="steps that are no number"),
    pytest.param({"web": {"show_tools": "some"}}, "some", id="an unknown choice"),
]


@pytest.mark.parametrize(("fields", "message"), [*BAD, *MALFORMED])
async def test_a_change_that_cannot_run_is_refused(core: Core, fields: dict[str, Any], message: str):
    """What this process could not run never becomes a version; the refusal names the field."""
    await core.agents.create(named("anna"))
    with pytest.raises(InvalidInput, match=message):
        await core.agents.update("anna", fields)
    assert (await core.agents.get("anna")).version == 1


@pytest.mark.parametrize(("fields", "message"), BAD)
async def test_an_agent_that_cannot_run_is_refused(core: Core, fields: dict[str, Any], message: str):
    """The same is refused when an agent is made, by hand or by a file, and nothing is left of it."""
    typed = {
        "controls": Controls(**fields.get("controls", {})),
        "limits": Limits(**fields.get("limits", {})),
    }
    wanted = Definition(**{"name": "anna", "instructions": "", **fields, **typed})
    with pytest.raises(InvalidInput, match=message):
        await core.agents.create(wanted)
    with pytest.raises(InvalidInput, match=message):
        await core.agents.sync_files([named("good"), wanted])
    assert await names(core) == ["assistant"]


async def test_unknown_provider_is_refused_by_hand_and_leaves_an_agent_of_a_file_unavailable(core: Core):
    """Its entry may have left the settings: the file's agent is stored, and says which provider it lacks."""
    wanted = named("anna", model="other:big")
    with pytest.raises(InvalidInput, match="model`: there is no provider `other` here"):
        await core.agents.create(wanted)
    await core.agents.sync_files([named("good"), wanted])
    ((name, why),) = await core.agents.unavailable()
    assert name == "anna"
    assert "its model `other:big` needs the provider `other`, which is not known here; define it" in why


async def test_limits_at_their_edges_are_taken(core: Core):
    """What is just within the limits is an agent: 100 characters, 200 steps, a window of two, or of everything."""
    for limit in (2, None):
        wanted = named("x" * 100, controls=Controls(max_steps=200), limits=Limits(max_context_messages=limit))
        made = await core.agents.create(wanted)
        assert (await core.agents.get(made.id)).definition == wanted
        await core.agents.delete(made.id)


async def test_what_a_newer_version_stored_does_not_keep_an_older_one_from_answering(core: Core) -> None:
    """During a deploy both versions work: what the newer one knows more of an agent, the older one leaves out."""
    made = await core.agents.create(named("anna", limits=Limits(max_context_messages=7)))
    newer = msgspec.to_builtins(made.definition) | {"boundary": {"reads": "all"}}
    newer["limits"] |= {"max_tokens": 9}
    stored = msgspec.json.encode(newer)
    version = catalog.VERSION.update().where(catalog.VERSION.c.version == 1).values(definition=stored)
    await core._store.write(lambda connection: connection.execute(version).close())

    assert (await core.agents.get(made.id)).definition == made.definition
    session = await open_session(core, agent="anna")
    assert (await core.run((await say_and_wait(core, session, "Hi")).run)).status == "completed"


async def test_agents_of_earlier_versions_keep_their_channels(core: Core) -> None:
    """A stored definition with `slack` and `web` beside its fields is read, changed and found equal to its file."""
    slack = {"default": False, "channels": ["C1"], "follow_up": False, "allow_mentions": False}
    slack |= {"external": "refuse", "loading": []}
    made = await core.agents.create(named("anna"))
    fields = msgspec.to_builtins(made.definition)
    del fields["channels"]
    stored = msgspec.json.encode({**fields, "web": {"show_tools": "full"}, "slack": slack})
    version = catalog.VERSION.update().where(catalog.VERSION.c.agent == _key(made.id))
    await core._store.write(lambda connection: connection.execute(version.values(definition=stored)).close())
    assert (await core.agents.get(made.id)).definition.channels == {"web": SHOWN, "slack": {**slack, "prompts": []}}
    channels = {"web": {"show_tools": "full"}, "slack": {"channels": ["C1"], "follow_up": False}}
    await core.agents.sync_files([named("anna", channels=channels)])
    assert (await core.agents.get("anna")).version == 1
    await core.agents.sync_files([named("anna")])
    changed = await core.agents.get("anna")
    assert (changed.version, changed.definition.channels) == (2, {})


async def test_settings_that_this_version_cannot_read_are_shown_as_they_are(core: Core) -> None:
    """Agents are listed although one has settings of another version, which the log names once; it can be repaired."""
    made = await core.agents.create(named("anna"))
    broken = {"channels": "C1", "follow_up": False}
    fields = {name: each for name, each in msgspec.to_builtins(made.definition).items() if name != "channels"}
    stored = msgspec.json.encode({**fields, "slack": broken})
    version = catalog.VERSION.update().where(catalog.VERSION.c.agent == _key(made.id))
    await core._store.write(lambda connection: connection.execute(version.values(definition=stored)).close())
    with capture_logs() as lines:
        for _ in range(2):
            listed = {each.definition.name: each.definition for each in (await core.agents.list()).items}
            assert listed["anna"].channels == {"slack": broken}
    (line,) = [line for line in lines if line["event"] == "agent.settings_unreadable"]
    assert (line["agent"], "slack.channels" in line["error"]) == ("anna", True)
    assert SETTINGS.of("slack", listed["anna"].channels) == Slack(follow_up=False)
    with pytest.raises(InvalidInput, match=r"slack\.channels"):
        await core.agents.update("anna", {"instructions": "Be long."})
    repaired = await core.agents.update("anna", {"channels": {"slack": {"channels": ["C1"]}}})
    assert repaired.definition.channels["slack"]["channels"] == ["C1"]


class Rebuilding:
    """A toolset that builds its tool at each look, with the *description* of the day."""

    description = "Look."

    async def tools(self, _scope: Scope, /) -> Mapping[str, Tool]:
        made = tool(_look)
        return {"look": Described(made, structs.replace(made.spec, name="look", description=self.description))}


class Described:
    """A tool with another spec."""

    def __init__(self, inner: Tool, spec: ToolSpec) -> None:
        self.spec, self.call = spec, inner.call


async def _look() -> str:
    """Look."""
    return "Nothing."


async def test_an_agent_stays_cached_while_its_tools_are_described_alike(make_core: MakeCore) -> None:
    """A toolset that builds new tools at each look costs no look at the database; another description does."""
    core, toolset = await make_core(), Rebuilding()
    roster = core.agents
    roster._toolset = toolset
    await roster.create(named("anna", tools=("look",)))
    first = await roster.prototype("anna")
    assert await roster.prototype("anna") is first
    toolset.description = "Look closely."
    again = await roster.prototype("anna")
    assert again is not first
    assert [spec.description for spec in again.agent.snapshot.tools] == ["Look closely."]


def _key(id: str) -> Any:
    return select(catalog.AGENT.c.key).where(catalog.AGENT.c.id == id).scalar_subquery()
