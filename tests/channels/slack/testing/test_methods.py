"""The stand-in's Web API through the real SDK: what it keeps, and what it refuses as Slack does."""

import json

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from agent_core.testing import FakeClock
from channels.slack.testing import App, SimulatedWorkspace, SlackStandIn, Team, User
from tests.channels.slack.testing.listener import ScriptedListener
from tests.channels.slack.testing.refusals import Slack, code, refusal, session

SECTION = {"type": "section", "text": {"type": "mrkdwn", "text": "*Well*"}}
METADATA = {"event_type": "parley_answer", "event_payload": {"delivery": "d1"}}


async def test_a_token_must_be_one_of_the_kind_and_the_workspace(stand_in: SlackStandIn, slack: Slack):
    """A wrong token, none, and one of the wrong kind give different errors; each workspace has its own."""
    base = f"{stand_in.base_url}api/"
    assert await code(AsyncWebClient(token="xoxb-wrong", base_url=base).auth_test()) == "invalid_auth"
    assert await code(AsyncWebClient(base_url=base).auth_test()) == "not_authed"
    app = AsyncWebClient(token=stand_in.app.app_token, base_url=base)
    assert await code(app.auth_test()) == "not_allowed_token_type"
    assert await code(slack.apps_connections_open(app_token=stand_in.team().bot_token)) == "not_allowed_token_type"
    assert (await slack.auth_test())["team_id"] == "T0001"
    other = AsyncWebClient(token=stand_in.team("T0002").bot_token, base_url=base)
    assert (await other.auth_test())["team_id"] == "T0002"


async def test_what_the_token_may_not_do_is_named():
    """A missing scope is refused with what is needed and what there is; other methods go on."""
    workspace = SimulatedWorkspace.example()
    workspace.scopes = frozenset({"chat:write", "im:write"})
    async with SlackStandIn(workspaces=[workspace]).serving() as url:
        slack: Slack = AsyncWebClient(token=workspace.bot_token, base_url=f"{url}api/")
        said = await refusal(slack.users_info(user="UANN"))
        assert said == {
            "ok": False,
            "error": "missing_scope",
            "needed": "users:read",
            "provided": "chat:write,im:write",
        }
        assert (await slack.chat_postMessage(channel="CGENERAL", text="hello"))["ok"]


async def test_a_method_that_does_not_exist_is_unknown(slack: Slack):
    """An unknown method answers as Slack does."""
    assert await code(slack.api_call("chat.shout")) == "unknown_method"


async def test_posts_are_kept_and_read_back(team: Team, slack: Slack):
    """An answer is in its thread, in order, and its metadata is returned on request."""
    root = (await team.says("UANN", "CGENERAL", "a < b & <@UBEN>")).ts
    posted = await slack.chat_postMessage(channel="CGENERAL", thread_ts=root, text="one", metadata=METADATA)
    await slack.chat_postMessage(channel="CGENERAL", thread_ts=root, blocks=[SECTION], text="two")
    read = await slack.conversations_replies(channel="CGENERAL", ts=root, include_all_metadata=True)
    assert [each["text"] for each in read["messages"]] == ["a &lt; b &amp; <@UBEN>", "one", "two"]
    assert read["messages"][1]["metadata"] == METADATA
    assert read["messages"][1]["bot_id"] == "BPARLEY"
    assert "metadata" not in (await slack.conversations_replies(channel="CGENERAL", ts=root))["messages"][1]
    newer = await slack.conversations_replies(channel="CGENERAL", ts=root, oldest=str(posted["ts"]))
    assert [each["text"] for each in newer["messages"]][1:] == ["two"]


async def test_threads_are_read_in_pages(team: Team, slack: Slack):
    """A cursor leads through a long thread, each message once."""
    root = (await team.says("UANN", "CGENERAL", "0")).ts
    for n in range(1, 5):
        await slack.chat_postMessage(channel="CGENERAL", thread_ts=root, text=str(n))
    texts, cursor, pages = [], "", 0
    while pages == 0 or cursor:
        page = await slack.conversations_replies(channel="CGENERAL", ts=root, limit=2, cursor=cursor)
        texts += [each["text"] for each in page["messages"]]
        cursor, pages = page.get("response_metadata", {}).get("next_cursor", ""), pages + 1
    assert (texts, pages) == (["0", "1", "2", "3", "4"], 3)
    assert [each["text"] for each in (await slack.conversations_history(channel="CGENERAL"))["messages"]] == ["0"]


async def test_only_members_read_a_channel(team: Team, slack: Slack):
    """A public channel without the app exists for it, and its messages do not."""
    root = (await team.says("UANN", "CQUIET", "hello")).ts
    assert (await slack.conversations_info(channel="CQUIET"))["channel"]["is_member"] is False
    assert await code(slack.conversations_replies(channel="CQUIET", ts=root)) == "not_in_channel"
    assert await code(slack.conversations_history(channel="CQUIET")) == "not_in_channel"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"channel": "CNOWHERE", "text": "x"}, "channel_not_found"),
        ({"channel": "CQUIET", "text": "x"}, "not_in_channel"),
        ({"channel": "CGENERAL"}, "no_text"),
        ({"channel": "CGENERAL", "text": "x", "blocks": "nonsense"}, "invalid_blocks_format"),
        ({"channel": "CGENERAL", "text": "x", "blocks": [{"type": "divider"}] * 51}, "msg_blocks_too_many"),
        ({"channel": "CGENERAL", "text": "x", "metadata": {"event_type": "a"}}, "invalid_metadata_format"),
        ({"channel": "CGENERAL", "text": "x", "thread_ts": "1.000000"}, "cannot_reply_to_message"),
    ],
)
async def test_a_post_that_slack_would_refuse_is_refused(slack: Slack, given: dict, expected: str):
    """Each mistake has Slack's own code."""
    assert await code(slack.api_call("chat.postMessage", json=given)) == expected


async def test_bad_blocks_are_refused_whole_and_the_pointer_names_them(team: Team, slack: Slack):
    """Nothing is posted, and the answer says which block it was."""
    bad = [SECTION, {"type": "section", "text": {"type": "mrkdwn", "text": ""}}]
    said = await refusal(slack.chat_postMessage(channel="CGENERAL", text="x", blocks=bad))
    assert said["error"] == "invalid_blocks"
    assert said["errors"][0]["pointer"].startswith("/blocks/1/text")
    assert "[json-pointer:/blocks/1/text" in said["response_metadata"]["messages"][0]
    assert team.top("CGENERAL") == ()


async def test_an_update_replaces_the_whole_message(team: Team, slack: Slack, listener: ScriptedListener):
    """Text without blocks takes the blocks away and is marked as edited; only the app's own messages can change."""
    ts = str((await slack.chat_postMessage(channel="CGENERAL", text="a", blocks=[SECTION]))["ts"])
    await slack.chat_update(channel="CGENERAL", ts=ts, blocks=[SECTION], text="b")
    assert not team.top("CGENERAL")[0].edited
    await slack.chat_update(channel="CGENERAL", ts=ts, text="c")
    (seen,) = team.top("CGENERAL")
    assert (seen.text, seen.blocks, seen.edited) == ("c", (), True)
    theirs = (await team.says("UANN", "CGENERAL", "mine")).ts
    assert await code(slack.chat_update(channel="CGENERAL", ts=theirs, text="x")) == "cant_update_message"
    assert await code(slack.chat_update(channel="CGENERAL", ts="1.000000", text="x")) == "message_not_found"
    assert await code(slack.chat_update(channel="CGENERAL", ts=ts, text="x" * 4001)) == "msg_too_long"


async def test_only_one_person_sees_an_ephemeral_message(team: Team, slack: Slack):
    """It is in no one else's channel, and cannot be sent to a person outside."""
    await slack.chat_postEphemeral(channel="CGENERAL", user="UANN", text="psst")
    assert [each.text for each in team.top("CGENERAL", user="UANN")] == ["psst"]
    assert team.top("CGENERAL", user="UBEN") == ()
    assert await code(slack.chat_postEphemeral(channel="CGENERAL", user="USAM", text="x")) == "user_not_in_channel"


async def test_a_session_says_what_the_agent_does(clock: FakeClock, team: Team, slack: Slack):
    """Status and title are seen above the thread; `processing` is over after an hour."""
    root = (await team.mentions("UANN", "CGENERAL", "hello")).ts
    where = {"channel_id": "CGENERAL", "thread_ts": root}
    said = await slack.agents_sessions_setStatus(**where, status="processing", title="Greeting")
    assert (said["status"], said.get("warning")) == ("processing", None)
    seen = session(team, "CGENERAL", root)
    assert (seen.title, seen.stop_button) == ("Greeting", True)
    clock.advance(3600)
    assert (await slack.agents_sessions_rename(**where, title="Hello"))["ok"]
    seen = session(team, "CGENERAL", root)
    assert (seen.status, seen.title) == ("active", "Hello")
    assert await code(slack.agents_sessions_setStatus(**where, status="asleep")) == "invalid_arguments"
    assert await code(slack.agents_sessions_rename(**where, title="x" * 201)) == "invalid_arguments"
    await slack.assistant_threads_setStatus(**where, status="is thinking…")
    seen = session(team, "CGENERAL", root)
    assert (seen.status, seen.loading) == ("processing", "is thinking…")


async def test_without_the_subscription_there_is_no_stop_button():
    """Slack warns an app that does not listen to Stop, and shows the person none."""
    app = App(subscribed=frozenset({"app_mention"}))
    stand_in = SlackStandIn(app=app)
    async with stand_in.serving() as url:
        team = stand_in.team()
        slack: Slack = AsyncWebClient(token=team.bot_token, base_url=f"{url}api/")
        root = (await team.says("UANN", "CGENERAL", "hello")).ts
        said = await slack.agents_sessions_setStatus(channel_id="CGENERAL", thread_ts=root, status="processing")
        assert said["warning"] == "missing_agent_session_stopped_event_subscription"
        seen = session(team, "CGENERAL", root)
        assert not seen.stop_button


async def test_prompts_are_set_for_the_tab_and_not_for_a_thread(team: Team, slack: Slack):
    """With a thread the call says yes and does nothing, as it does under the agent view."""
    prompts = [{"title": "Weekly", "message": "Summarise the week"}]
    root = (await team.says("UANN", "UANN", "hello")).ts
    call = slack.assistant_threads_setSuggestedPrompts
    await call(channel_id="DANN", thread_ts=root, prompts=prompts)
    assert team.prompts("UANN") is None
    await slack.api_call("assistant.threads.setSuggestedPrompts", json={"channel_id": "DANN", "prompts": prompts})
    found = team.prompts("UANN")
    assert found is not None
    assert found["prompts"] == prompts
    too_many = {"channel_id": "DANN", "prompts": prompts * 5}
    assert await code(slack.api_call("assistant.threads.setSuggestedPrompts", json=too_many)) == "invalid_arguments"


async def test_people_channels_and_groups_are_looked_up(team: Team, slack: Slack):
    """Guests, strangers and shared channels are distinguished; a direct channel opens."""
    assert (await slack.users_info(user="UGUEST"))["user"]["is_restricted"]
    stranger = (await slack.users_info(user="USAM"))["user"]
    assert (stranger["is_stranger"], stranger["team_id"]) == (True, "TOTHER")
    assert await code(slack.users_info(user="UNOBODY")) == "user_not_found"
    team.workspace.add(User("UNEW", "new", "New One", "T0001"))
    assert (await slack.conversations_open(users="UNEW"))["channel"]["id"] == "DNEW"
    assert (await slack.conversations_info(channel="CSHARED"))["channel"]["is_ext_shared"]
    assert (await slack.usergroups_users_list(usergroup="SDATA"))["users"] == ["UBEN", "UCLEO"]
    link = await slack.chat_getPermalink(channel="CGENERAL", message_ts=(await team.says("UANN", "CGENERAL", "x")).ts)
    assert "/archives/CGENERAL/p" in link["permalink"]


async def test_arguments_may_come_as_a_form(slack: Slack, team: Team):
    """JSON, forms and queries say the same."""
    form = {"channel": "CGENERAL", "text": "from a form", "blocks": json.dumps([SECTION])}
    assert (await slack.api_call("chat.postMessage", data=form))["ok"]
    assert (await slack.api_call("chat.postMessage", params={"channel": "CGENERAL", "text": "from a query"}))["ok"]
    assert [each.source for each in team.top("CGENERAL")] == ["from a form", "from a query"]


async def test_pings_of_a_message_are_found(slack: Slack, team: Team):
    """Mentions are found in texts, in Markdown and as elements of rich text; plain text pings no one."""
    await slack.chat_postMessage(channel="CGENERAL", text="<!channel> <@UANN> &lt;!here&gt;")
    markdown = [{"type": "markdown", "text": "hello <!subteam^SDATA>"}]
    await slack.chat_postMessage(channel="CGENERAL", text="x", blocks=markdown)
    rich = [{"type": "rich_text_section", "elements": [{"type": "broadcast", "range": "here"}]}]
    await slack.chat_postMessage(channel="CGENERAL", text="x", blocks=[{"type": "rich_text", "elements": rich}])
    literal = [{"type": "rich_text_section", "elements": [{"type": "text", "text": "<!channel>"}]}]
    await slack.chat_postMessage(channel="CGENERAL", text="x", blocks=[{"type": "rich_text", "elements": literal}])
    pings = [each.pings for each in team.top("CGENERAL")]
    assert pings == [("!channel", "@UANN"), ("!subteam^SDATA",), ("!here",), ()]
