"""What the app receives over HTTP: signed, repeated when it fails, and in every disorder that a fault brings."""

import aiohttp
import pytest
from aiohttp import web

from agent_core.testing import FakeClock
from channels.slack.testing import InjectedFault, NotPossible, SlackStandIn, Team
from tests.channels.slack.testing.listener import ScriptedListener
from tests.channels.slack.testing.refusals import Slack, code


def kinds(listener: ScriptedListener) -> list[str]:
    return [each.get("subtype", each["type"]) for each in listener.events]


async def test_a_mention_arrives_twice_and_signed(team: Team, listener: ScriptedListener):
    """Two events with ids of their own report one message; the SDK's verifier has accepted both."""
    dispatched = await team.mentions("UANN", "CGENERAL", "hello")
    assert dispatched.acked
    assert sorted(kinds(listener)) == ["app_mention", "message"]
    assert len({each.payload["event_id"] for each in listener.received}) == 2
    assert {each.event["ts"] for each in listener.received} == {dispatched.ts}
    assert {(each.payload["team_id"], each.event["channel"]) for each in listener.received} == {("T0001", "CGENERAL")}


async def test_a_mention_by_a_bot_says_so(team: Team, listener: ScriptedListener):
    """Both events of a message that another bot wrote name that bot."""
    await team.mentions("UBUILD", "CGENERAL", "hello")
    assert sorted(kinds(listener)) == ["app_mention", "message"]
    assert {each["bot_id"] for each in listener.events} == {"BBUILD"}


async def test_a_wrong_secret_is_noticed(stand_in: SlackStandIn, team: Team):
    """An app with another secret refuses what comes, and the person's action says so."""
    async with ScriptedListener("another secret") as listening:
        stand_in.deliver_to(listening.url)
        dispatched = await team.says("UANN", "CGENERAL", "hello")
        assert (dispatched.acked, dispatched.failures) == (False, ("http_error", "http_error"))
        assert listening.received == []


async def test_the_app_receives_nothing_from_places_it_may_not_read(team: Team, listener: ScriptedListener):
    """Channels without the app, and kinds of event without their scope, stay silent."""
    assert (await team.says("UANN", "CQUIET", "secret")).deliveries == ()
    team.workspace.scopes -= {"groups:history"}
    assert (await team.says("UANN", "GSECRET", "also")).deliveries == ()
    await team.says("UANN", "UANN", "hello")
    await team.says("UANN", "GTRIO", "all")
    assert [each["channel_type"] for each in listener.events] == ["im", "mpim"]


async def test_a_failed_event_is_repeated_as_slack_does(
    clock: FakeClock, stand_in: SlackStandIn, team: Team, listener: ScriptedListener
):
    """At once, after a minute and after five more, with number and reason; the id stays the same."""
    listener.answers += [web.Response(status=500), web.Response(status=500), web.Response(status=503)]
    dispatched = await team.says("UANN", "CGENERAL", "hello")
    assert (dispatched.acked, len(listener.received)) == (False, 2)
    assert await clock.advance_to_next() == 60
    await stand_in.until(lambda: len(listener.received) == 3)
    assert await clock.advance_to_next() == 300
    await dispatched.finished()
    assert dispatched.acked
    assert [each.retry for each in listener.received] == [None, "1", "2", "3"]
    assert {each.reason for each in listener.received[1:]} == {"http_error"}
    assert len({each.payload["event_id"] for each in listener.received}) == 1


async def test_an_app_may_ask_for_no_repetition(team: Team, listener: ScriptedListener):
    """The header `X-Slack-No-Retry` ends it."""
    listener.answers.append(web.Response(status=500, headers={"X-Slack-No-Retry": "1"}))
    dispatched = await (await team.says("UANN", "CGENERAL", "hello")).finished()
    assert (dispatched.acked, len(listener.received)) == (False, 1)


async def test_changes_arrive_as_changes(team: Team, listener: ScriptedListener):
    """Edits have an `edited.ts` of their own, unfurls none; a deleted root with answers leaves a tombstone."""
    root = (await team.says("UANN", "CGENERAL", "one")).ts
    answer = (await team.says("UBEN", "CGENERAL", "two", root)).ts
    await team.edits("UANN", "CGENERAL", root, "one!")
    await team.unfurls("CGENERAL", answer)
    await team.deletes("UANN", "CGENERAL", root)
    await team.deletes("UBEN", "CGENERAL", answer)
    assert kinds(listener)[2:] == ["message_changed", "message_changed", "message_changed", "message_deleted"]
    edit, unfurl, tombstone, deletion = listener.events[2:]
    assert (edit["message"]["text"], edit["previous_message"]["text"]) == ("one!", "one")
    assert float(edit["message"]["edited"]["ts"]) > float(answer)
    assert "edited" not in unfurl["message"]
    assert tombstone["message"]["subtype"] == "tombstone"
    assert deletion["deleted_ts"] == answer
    with pytest.raises(NotPossible):
        await team.edits("UBEN", "CGENERAL", root, "not mine")


async def test_the_app_receives_its_own_messages(
    team: Team, slack: Slack, stand_in: SlackStandIn, listener: ScriptedListener
):
    """Its own posts and updates come back as events with its bot id."""
    ts = str((await slack.chat_postMessage(channel="CGENERAL", text="hello"))["ts"])
    await slack.chat_update(channel="CGENERAL", ts=ts, text="hello!")
    await stand_in.until(lambda: len(listener.events) == 2)
    events = sorted(listener.events, key=lambda each: each["event_ts"])
    assert events[0]["bot_id"] == events[1]["message"]["bot_id"] == "BPARLEY"


async def test_people_of_elsewhere_are_marked(team: Team, listener: ScriptedListener):
    """In a shared channel the envelope says so, and a stranger's message names the other team."""
    await team.says("USAM", "CSHARED", "hello from outside")
    assert listener.received[0].payload["is_ext_shared_channel"]
    assert (listener.events[0]["team"], listener.events[0]["user_team"]) == ("TOTHER", "TOTHER")


async def test_home_titles_and_context_arrive(team: Team, slack: Slack, listener: ScriptedListener):
    """Opening a tab, renaming a session and looking elsewhere are events of their own."""
    root = (
        await team.says("UANN", "UANN", "hello", entities=[{"type": "slack#/types/channel_id", "value": "CDATA"}])
    ).ts
    await slack.agents_sessions_setStatus(channel_id="DANN", thread_ts=root, status="active", title="Old")
    await team.opens_home("UANN")
    await team.renames("UANN", "DANN", root, "New")
    await team.looks_at("UANN", {"type": "slack#/types/channel_id", "value": "CGENERAL", "team_id": "T0001"})
    said, home, renamed, context = listener.events
    assert said["app_context"]["entities"][0]["value"] == "CDATA"
    assert (home["type"], home["tab"]) == ("app_home_opened", "messages")
    assert (renamed["title"], renamed["previous_title"]) == ("New", "Old")
    assert context["context"]["entities"][0]["value"] == "CGENERAL"


async def test_a_command_answers_to_one_person(team: Team, listener: ScriptedListener):
    """What the app says back is shown to the person, and later words go through the response URL."""
    listener.answers.append(web.json_response({"text": "Working on it"}))
    dispatched = await team.command("UANN", "CGENERAL", "/parley", "a question")
    form = listener.received[0].payload
    assert (form["command"], form["text"], form["channel_id"]) == ("/parley", "a question", "CGENERAL")
    assert [each.text for each in team.top("CGENERAL", user="UANN")] == ["Working on it"]
    assert team.top("CGENERAL", user="UBEN") == ()
    assert dispatched.acked
    async with aiohttp.ClientSession() as session:
        statuses = []
        for n in range(6):
            async with session.post(form["response_url"], json={"text": str(n)}) as response:
                statuses.append(response.status)
    assert statuses == [200] * 5 + [404]
    assert [each.text for each in team.top("CGENERAL", user="UANN")][1:] == ["0", "1", "2", "3", "4"]


async def test_a_click_opens_a_modal_once_and_in_time(
    clock: FakeClock, team: Team, slack: Slack, listener: ScriptedListener
):
    """A trigger id is good for three seconds and one view; what is sent off comes back with its values."""
    ts = (await team.says("UANN", "CGENERAL", "look")).ts
    await team.shortcut("UANN", "ask_message", "CGENERAL", ts)
    payload = listener.received[-1].payload
    assert (payload["type"], payload["message"]["text"]) == ("message_action", "look")
    question = {"type": "plain_text_input", "action_id": "text"}
    asked = {"type": "input", "block_id": "q", "label": {"type": "plain_text", "text": "What?"}, "element": question}
    title = {"type": "plain_text", "text": "Ask"}
    view = {"type": "modal", "title": title, "submit": title, "blocks": [asked], "callback_id": "ask"}
    opened = (await slack.views_open(trigger_id=payload["trigger_id"], view=view))["view"]
    assert await code(slack.views_open(trigger_id=payload["trigger_id"], view=view)) == "exchanged_trigger_id"
    await team.shortcut("UANN", "ask_message", "CGENERAL", ts)
    clock.advance(3.1)
    late = listener.received[-1].payload["trigger_id"]
    assert await code(slack.views_open(trigger_id=late, view=view)) == "expired_trigger_id"

    listener.answers.append(web.json_response({"response_action": "errors", "errors": {"q": "Too short"}}))
    values = {"q": {"text": {"type": "plain_text_input", "value": "why"}}}
    await team.submits("UANN", opened["id"], values)
    assert team.workspace.views[opened["id"]].view["errors"] == {"q": "Too short"}
    await team.submits("UANN", opened["id"], values)
    assert listener.received[-1].payload["view"]["state"]["values"] == values
    assert team.workspace.views == {}


async def test_an_event_comes_twice(stand_in: SlackStandIn, team: Team, listener: ScriptedListener):
    """A duplicate has the same event id."""
    stand_in.fault(InjectedFault("duplicate", on="message"))
    await team.says("UANN", "CGENERAL", "hello")
    await team.says("UANN", "CGENERAL", "again")
    assert [each["text"] for each in listener.events] == ["hello", "hello", "again"]
    assert listener.received[0].payload["event_id"] == listener.received[1].payload["event_id"]


async def test_an_event_comes_late(clock: FakeClock, stand_in: SlackStandIn, team: Team, listener: ScriptedListener):
    """It is on its way until the clock has moved."""
    stand_in.fault(InjectedFault("late", on="message", seconds=90))
    dispatched = await team.says("UANN", "CGENERAL", "slow")
    await team.says("UANN", "CGENERAL", "quick")
    assert await clock.advance_to_next() == 90
    await dispatched.finished()
    assert [each["text"] for each in listener.events] == ["quick", "slow"]


async def test_events_come_out_of_order(stand_in: SlackStandIn, team: Team, listener: ScriptedListener):
    """An event waits until the next one has been delivered."""
    stand_in.fault(InjectedFault("out_of_order", on="message"))
    dispatched = await team.says("UANN", "CGENERAL", "first")
    await team.says("UANN", "CGENERAL", "second")
    await dispatched.finished()
    assert [each["text"] for each in listener.events] == ["second", "first"]
