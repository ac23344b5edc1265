"""What a payload asks for, read without a call to Slack."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.slack.api import Identity
from channels.slack.blocks import FEEDBACK
from channels.slack.cards import DENY, EDIT
from channels.slack.forms import CardAt, written
from channels.slack.intake import (
    Commanded,
    Deleted,
    Edited,
    Filled,
    MessagePosted,
    Opened,
    Pointed,
    Pressed,
    StopPressed,
    Unknown,
    Voted,
    read,
    team_of,
    words,
)
from channels.slack.settings import Thread
from tests.cases import for_each

ME = Identity("T1", "UPARLEY", "BPARLEY", None)
MESSAGE = {"type": "message", "channel": "C1", "user": "UANN", "text": "hello", "ts": "10.000100"}
THREAD = Thread("T1", "C1", "10.000100", "UANN", "T1")
CLICK = {"team": {"id": "T1"}, "user": {"id": "UANN", "team_id": "T1"}, "trigger_id": "1.2"}


def asked(event: dict[str, Any]) -> Any:
    return read({"type": "event_callback", "event": event}, ME)


def changed(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return the event of a message that was *before* and is *now*."""
    event = {"type": "message", "subtype": "message_changed", "channel": "C1", "ts": "20.000000"}
    return event | {"message": {**MESSAGE, **now}, "previous_message": {**MESSAGE, **before}}


def test_a_message_has_its_thread():
    """A message at the top is the root of its thread, a reply is in that of its root; `D` are direct messages."""
    assert asked(MESSAGE) == MessagePosted(THREAD, "10.000100", "hello")
    reply = asked({**MESSAGE, "thread_ts": "9.000000", "user_team": "T9", "files": [{}, {}], "subtype": "file_share"})
    assert (reply.thread.root, reply.thread.user_team, reply.content) == ("9.000000", "T9", {"files": [{}, {}]})
    assert asked({**MESSAGE, "channel": "D1"}).addressed
    assert not asked(MESSAGE).addressed


def test_the_address_of_a_thread_names_all_that_it_is_in():
    """Workspace, organisation, channel and root: nothing else has the same address."""
    inside = read({"type": "event_callback", "event": MESSAGE}, Identity("T1", "U", "B", "E1"))
    assert isinstance(inside, MessagePosted)
    assert (inside.thread.address, asked(MESSAGE).thread.address) == (
        "slack:E1:T1:C1:10.000100",
        "slack:-:T1:C1:10.000100",
    )


@for_each("text", ["<@UPARLEY> hello", "hello <@UPARLEY>", "<@UPARLEY|parley> hello"])
def test_a_mention_is_to_us(text):
    """Both events of a mention say the same, wherever the name is."""
    seen = [asked({**MESSAGE, "text": text, "type": kind}) for kind in ("message", "app_mention")]
    assert seen[0] == seen[1]
    assert seen[0].mentioned
    assert not asked({**MESSAGE, "text": "<@UBEN> hello"}).mentioned


@for_each(
    "about",
    [
        {"bot_id": "B1"},
        {"bot_profile": {"name": "x"}},
        {"subtype": "bot_message", "user": None},
        {"user": "UPARLEY"},
        {"user": "USLACKBOT"},
        {"subtype": "channel_join"},
        {"subtype": "message_replied"},
    ],
)
def test_what_no_person_says_asks_for_nothing(about):
    """Bots, ourselves and Slack's own notices are no messages, nor are their edits and deletions."""
    said = {**MESSAGE, **about}
    assert asked(said) is None
    if "subtype" not in about:
        assert asked({**said, "type": "app_mention"}) is None
        assert asked(changed({**about, "edited": {"ts": "20.000000"}}, about)) is None
        assert asked({**MESSAGE, "subtype": "message_deleted", "deleted_ts": "1.0", "previous_message": said}) is None


def test_only_a_persons_edit_is_one():
    """A change is an edit when its `edited` is new: previews and our own updates are none."""
    edit = asked(changed({"text": "new", "edited": {"ts": "20.000000"}}, {}))
    assert edit == Edited(MessagePosted(THREAD, "10.000100", "new"), "20.000000")
    assert asked(changed({"text": "new"}, {})) is None
    assert asked(changed({"edited": {"ts": "20.000000"}}, {"edited": {"ts": "20.000000"}})) is None


def test_a_root_that_was_answered_leaves_a_tombstone():
    """The deletion of a root with replies comes as a change, any other as a deletion."""
    assert asked(changed({"subtype": "tombstone", "user": "USLACKBOT"}, {})) == Deleted(THREAD, "10.000100")
    gone = {"type": "message", "subtype": "message_deleted", "channel": "C1", "deleted_ts": "10.000100"}
    assert asked({**gone, "previous_message": MESSAGE}) == Deleted(THREAD, "10.000100")


def test_what_people_press():
    """Stop, the Messages tab, a feedback button, a command and a shortcut are read for what they are."""
    stop = {"type": "agent_session_stopped", "channel": "C1", "user": "UANN", "thread_ts": "10.000100"}
    assert asked({**stop, "event_ts": "30.000000"}) == StopPressed(THREAD, "30.000000")
    assert asked({"type": "app_home_opened", "user": "UANN", "channel": "D1", "tab": "messages"}) == Opened(
        "UANN", "D1"
    )
    assert asked({"type": "app_home_opened", "user": "UANN", "channel": "D1", "tab": "home"}) is None
    press = {**CLICK, "type": "block_actions", "actions": [{"action_id": FEEDBACK, "value": "run_1:down"}]}
    assert read(press, ME) == Voted("UANN", "run_1", good=False)
    command = {"command": "/parley", "text": "why", "channel_id": "C1", "user_id": "UANN", "trigger_id": "1.2"}
    assert read(command, ME) == Commanded("C1", "UANN", "T1", "/parley", "why", "1.2")
    shortcut = {**CLICK, "type": "message_action", "callback_id": "ask_message", "channel": {"id": "C1"}}
    pointed = read({**shortcut, "message": {**MESSAGE, "user": "UBEN"}}, ME)
    assert pointed == Pointed(THREAD, "10.000100", {**MESSAGE, "user": "UBEN"}, "1.2")


FIELDS = ["user", "channel", "ts", "text", "thread_ts", "message", "previous_message", "deleted_ts", "files", "edited"]
VALUES = st.none() | st.integers(0, 3) | st.sampled_from(["", "x", MESSAGE, {"ts": "1.0"}, [], [{}], {"user": None}])
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "app_mention", "agent_session_stopped", "app_home_opened"])},
    optional={
        "subtype": st.sampled_from([None, "message_changed", "message_deleted"]),
        **dict.fromkeys(FIELDS, VALUES),
    },
)


def test_a_card_s_buttons_and_forms_name_their_card():
    """A press says which button of which card; a form says what is in each field, chosen or written."""
    at = CardAt("apr_1", "C1", "2.0", "1.0")
    container = {"type": "message", "channel_id": "C1", "message_ts": "2.0", "thread_ts": "1.0"}
    press = {
        **CLICK,
        "type": "block_actions",
        "container": container,
        "actions": [{"action_id": EDIT, "value": "apr_1"}],
    }
    assert read(press, ME) == Pressed("UANN", at, EDIT, "1.2")
    option = {"type": "static_select", "selected_option": {"text": {"type": "plain_text", "text": "red"}, "value": "0"}}
    values = {
        "arg_0": {"value": {"type": "plain_text_input", "value": "Bob"}},
        "arg_1": {"value": option},
        "arg_2": {"value": {"type": "static_select", "selected_option": None}},
        "arg_3": {"value": {"type": "plain_text_input", "value": None}},
        "arg_4": {"value": {"type": "datepicker", "selected_date": "2026-02-03"}},
        "arg_5": {"value": {"type": "datetimepicker", "selected_date_time": 1_770_109_200}},
        "arg_6": {"value": {"type": "datetimepicker", "selected_date_time": None}},
    }
    view = {"callback_id": DENY, "private_metadata": written(at), "state": {"values": values}}
    form = {**CLICK, "type": "view_submission", "view": view}
    said = {"arg_0": "Bob", "arg_1": "0", "arg_2": None, "arg_3": None}
    said |= {"arg_4": "2026-02-03", "arg_5": "2026-02-03T09:00:00Z", "arg_6": None}
    assert read(form, ME) == Filled("UANN", at, DENY, said)


@for_each("metadata", ["", "[1]", "{}", "not json", "[1, 2, 3, 4, 5]"])
def test_a_form_that_is_not_ours_asks_for_nothing(metadata):
    """A form without a card of ours is not known, whatever it is called."""
    view = {"callback_id": EDIT, "private_metadata": metadata, "state": {"values": {}}}
    assert isinstance(read({**CLICK, "type": "view_submission", "view": view}, ME), Unknown)
    assert isinstance(read({**CLICK, "type": "view_submission", "view": {**view, "callback_id": "x"}}, ME), Unknown)


@given(EVENTS)
def test_nothing_that_comes_breaks_the_reading(event):
    """Whatever an event is made of, it asks for something, for nothing, or is not known."""
    found = asked(event)
    assert found is None or isinstance(found, MessagePosted | Edited | Deleted | StopPressed | Opened | Unknown)


@for_each(
    "text, said",
    [
        ("<@UPARLEY> why &lt;so&gt;?", "why <so>?"),
        ("  <@UPARLEY>", "@me"),
        ("ask <@UPARLEY> or <@UBEN>", "ask @me or @Ben"),
        ("see <https://a.example|this>", "see this (https://a.example)"),
        ("a\u0000b\r\nc", "a b\nc"),
    ],
)
def test_words_are_what_a_person_reads(text, said):
    """Mentions are names, entities are signs, and the mention that opens a message is no part of it."""
    assert words(text, ME, {"UPARLEY": "me", "UBEN": "Ben"}) == said


def test_a_payload_is_for_the_workspace_that_installed_the_app():
    """In a shared channel the installation counts, and not where something happened."""
    assert team_of({"team_id": "T9", "authorizations": [{"team_id": "T1"}]}) == "T1"
    assert team_of({"team_id": "T9"}) == "T9"
    assert team_of({"team": {"id": "T1"}, "user": {"team_id": "T9"}}) == "T1"
    assert team_of({"team": None, "user": {"team_id": "T9"}}) == "T9"
    assert team_of({"type": "block_actions", "team": {"id": "T9"}, "message": {"team": "T1"}}) == "T1"
    assert team_of({"type": "message_action", "team": {"id": "T1"}, "message": {"team": "T9"}}) == "T1"
    view = {"app_installed_team_id": "T1"}
    assert team_of({"type": "view_submission", "team": {"id": "T9"}, "view": view}) == "T1"
    assert team_of({}) == ""
