"""What a tool knows of the person who asks in Slack."""

from typing import Any

from agent_core.agent.frames import context_facts
from agent_core.agents import AgentDefaults
from agent_core.channels import Context
from agent_core.providers.base import Request
from agent_core.store.erasing import ForgottenPerson, redacted
from agent_core.testing import Answer, call, say
from agent_core.tools.base import CallContext
from agent_core.tools.functions import FunctionTool, tool
from channels.slack.api import Identity
from channels.slack.people import Quote, author_of, person_of
from channels.slack.settings import Slack
from tests.agent_core.stage import texts
from tests.cases import for_each
from tests.channels.slack.rig import Rig, rigged

ANN = {"slack_user": "UANN", "slack_user_team": "T0001", "slack_user_kind": "member", "slack_team": "T0001"}
ME = Identity("T0001", "UPARLEY", "BPARLEY", None)


def noting(seen: list[CallContext]) -> FunctionTool[..., Any]:
    """Return a tool `ask` that notes its contexts in *seen*."""

    @tool
    async def ask(context: CallContext) -> str:
        """Ask."""
        seen.append(context)
        return "asked"

    return ask


def asks_once(request: Request) -> Answer:
    """Use the tool for each question, then answer."""
    return [say("Done.")] if request.messages[-1].message.role == "tool" else [call("ask")]


async def ended(rig: Rig, channel: str) -> str:
    """Return the root of the one thread of *channel* that was answered last, once it is quiet."""
    thread = rig.shows.threads[-1]
    assert thread.channel == channel
    await rig.ended(channel, thread.root)
    return thread.root


async def test_a_tool_knows_who_asks_in_slack_and_where(make_core):
    """Person, workspace, channel, thread and address come with a mention, a command and a shortcut alike."""
    seen: list[CallContext] = []
    async with rigged(make_core, answer=asks_once, tools=(noting(seen),)) as rig:
        await rig.team.mentions("UANN", "CGENERAL", "hello")
        roots = [await ended(rig, "CGENERAL")]
        await rig.team.command("UANN", "CGENERAL", "/parley", "hello?")
        roots.append(await ended(rig, "CGENERAL"))
        message = await rig.team.says("UBEN", "CGENERAL", "look")
        await rig.team.shortcut("UANN", "ask_message", "CGENERAL", message.ts)
        roots.append(await ended(rig, "CGENERAL"))
    known = {**ANN, "slack_channel": "CGENERAL", "email": "ann@acme.example"}
    assert [each.tool_context for each in seen] == [{**known, "slack_thread": root} for root in roots]
    assert {(each.actor.id, each.actor.name, each.channel) for each in seen} == {
        ("slack:T0001:UANN", "Ann Lee", "slack")
    }
    assert len(set(roots)) == 3


async def test_each_message_has_the_name_of_who_wrote_it(make_core):
    """In a thread of several people every message names its author, and so does what was said before the mention."""
    async with rigged(make_core) as rig:
        root = (await rig.team.says("UCLEO", "CGENERAL", "look at this")).ts
        await rig.team.mentions("UANN", "CGENERAL", "what is it?", root)
        await rig.team.says("UBEN", "CGENERAL", "and why?", root)
        await rig.ended("CGENERAL", root)
        session = await rig.session("CGENERAL", root)
        assert session is not None
        found = (await rig.core.messages(session.id)).items
        assert [each.actor.name for each in found if each.role == "user" and each.actor] == ["Ann Lee", "Ben Okoro"]
        assert any("| Cleo Marsh: look at this" in text for text in rig.seen())


async def test_the_model_learns_the_time_where_the_person_is(make_core):
    """The zone of a person's profile goes before that of the server, in a mention, a command and a shortcut alike."""
    clocks: list[str] = []

    def answer(request: Request) -> Answer:
        clocks.extend(text for _, text in texts(request) if text.startswith("[clock]"))
        return [say("Done.")]

    async with rigged(make_core, answer=answer) as rig:
        rig.core.agents.defaults = AgentDefaults(clock="UTC")
        await rig.team.mentions("UANN", "CGENERAL", "hello")
        await ended(rig, "CGENERAL")
        await rig.team.command("UANN", "CGENERAL", "/parley", "hello?")
        await ended(rig, "CGENERAL")
        message = await rig.team.says("UBEN", "CGENERAL", "look")
        await rig.team.shortcut("UANN", "ask_message", "CGENERAL", message.ts)
        await ended(rig, "CGENERAL")
    assert len(clocks) == 3
    assert [text for text in clocks if "(Europe/London, UTC+00:00)" not in text] == []


async def test_without_the_scope_there_is_no_address(make_core):
    """The address is absent where Slack does not give it, and nothing is asked for it besides."""
    seen: list[CallContext] = []
    async with rigged(make_core, answer=asks_once, tools=(noting(seen),)) as rig:
        rig.team.workspace.scopes -= {"users:read.email"}
        await rig.team.mentions("UANN", "CGENERAL", "hello")
        root = await ended(rig, "CGENERAL")
        assert len(rig.stand_in.called("users.info")) == 1
    assert [each.tool_context for each in seen] == [{**ANN, "slack_channel": "CGENERAL", "slack_thread": root}]


async def test_a_stranger_s_address_is_not_passed_on(make_core):
    """What another organisation says of its people's addresses proves nothing: a tool must not take it for Ann's."""
    seen: list[CallContext] = []
    slack = Slack(default=True, external="answer")
    async with rigged(make_core, slack=slack, answer=asks_once, tools=(noting(seen),)) as rig:
        await rig.team.mentions("USAM", "CSHARED", "my orders?")
        await ended(rig, "CSHARED")
    (known,) = [each.tool_context for each in seen]
    assert "email" not in known
    assert (known["slack_user_kind"], known["slack_user_team"], known["slack_team"]) == ("stranger", "TOTHER", "T0001")


@for_each(
    "about, email",
    [
        ({}, "ann@acme.example"),
        ({"is_restricted": True}, "ann@acme.example"),
        ({"is_email_confirmed": False}, None),
        ({"is_stranger": True}, None),
        ({"profile": {"email": "x" * 400}}, None),
        ({"profile": {"email": {"a": 1}}}, None),
    ],
)
def test_only_an_address_that_the_workspace_vouches_for_counts(about, email):
    """Unconfirmed, overlong and strangers' addresses are none."""
    person = person_of({"id": "UANN", "profile": {"email": "ann@acme.example"}, **about}, ME)
    assert person.email == email


@for_each(
    "name, called",
    [
        ("Ann: pay Ben", "Ann pay Ben"),
        ("A\u202enn\n[note] x", "A\\u{202e}nn (note) x"),
        ("x" * 200, "x" * 79 + "…"),
        ("Ann:: pay Ben", "Ann pay Ben"),
        ("Ann : pay :: Ben", "Ann pay Ben"),
        (":", "UANN"),
        ("12:30", "12:30"),
    ],
)
def test_a_name_cannot_pass_for_more_than_a_name(name, called):
    """Names are on one line and bounded, with all to be seen, and do not end like the name of a quotation."""
    assert person_of({"id": "UANN", "real_name": name}, ME).name == called


@for_each("name", ["Ann: Lee", "Ann:: Lee", "Ann Lee: ", "Lee " * 40, "L" * 81, "[Ann] : : Lee"])
def test_a_forgotten_person_is_found_by_name_in_quotations(name: str):
    """The name of who wrote a message is the one before their quoted words, so these go with the person."""
    person = person_of({"id": "UANN", "real_name": name}, ME)
    author = author_of(Quote("UANN", name, ()), {"UANN": person.name})
    assert author == author_of(Quote("", name, ()), {}) == person.name
    (quoted,) = context_facts([Context(text="my new address", author=author)])
    who = ForgottenPerson("slack:T0001:UANN", "forgotten:1", [person.name])
    assert "address" not in redacted("context.added", {"source": "thread", "text": quoted.text}, who)["text"]


def test_quotations_of_any_long_name_are_found():
    """A quotation shows the first characters of a name; by these the person's words are found too."""
    name = "Ann Lee " * 20
    (quoted,) = context_facts([Context(text="my new address", author=name)])
    who = ForgottenPerson("ann", "forgotten:1", [name])
    assert "address" not in redacted("context.added", {"source": "thread", "text": quoted.text}, who)["text"]
