"""What a visitor sees of each event."""

import json
from pathlib import Path
from typing import Any

import msgspec

from agent_core.events import FACTS, LIVE, Fact, Heartbeat, Live, ToolProgress
from channels.web.visible import (
    ASKING,
    CONTENTS,
    HIDDEN,
    OPERATORS,
    PLAIN,
    SENT,
    visible,
    visible_approval,
    visible_parts,
    visible_run,
)
from tests.cases import for_each

GOLDEN = Path(__file__).parents[2] / "golden"
PARTS = [
    {"type": "text", "text": "a"},
    {"type": "tool_call", "call": "c", "name": "n", "arguments": {"secret": 1}},
    {"type": "tool_result", "call": "c", "outcome": "done", "parts": [{"type": "text", "text": "secret"}]},
    {"type": "file", "file": "f", "name": "n", "mime": "m", "size": 1},
]
ASKED = {
    "approval": "a",
    "call": "c",
    "tool": "pay",
    "arguments": {"amount": 5},
    "hook": "approval-1",
    "title": "May it?",
    "responders": ["asker", "not_asker", "actor:cfo@example.com", "slack:S1"],
    "deliver_to": ["slack:C1"],
}
VOTED = {
    "approval": "a",
    "call": "c",
    "by": {"id": "x", "kind": "user", "name": "Xu"},
    "arguments": {"amount": 5},
    "votes": 1,
    "quorum": 2,
}
DECIDED = {"approval": "a", "call": "c", "tool": "pay", "arguments": {"amount": 5}, "status": "approved"}


def fact(kind: str, body: Any) -> Fact:
    raw = msgspec.json.encode(body)
    return Fact(seq=1, type=kind, session="s", run="r", parent_run=None, time=0, raw=raw)


def seen(kind: str, body: Any, show: Any = "names", **options: Any) -> Any:
    found = visible(fact(kind, body), show, **options)
    return None if found is None else json.loads(found)


def test_every_event_type_is_decided_on():
    """No type of the union is left to chance: it is plain, hidden or edited."""
    edited = {*OPERATORS, *CONTENTS, *ASKING, *SENT, "message.completed", "tool.progress"}
    known = {*FACTS, *LIVE}
    assert known <= {*PLAIN, *HIDDEN, *edited}
    assert not PLAIN & (HIDDEN | edited)


@for_each("show", ["none", "names", "full"])
@for_each(
    "kind",
    ["cache.missed", "context.added", "controls.changed", "hook.ruled", "snapshot.frozen", "brand.new"],
)
def test_the_operators_events_are_hidden(kind, show):
    """Notes, rulings and snapshots are never shown, nor are rulings that ask no one."""
    assert seen(kind, {"text": "secret"}, show) is None


@for_each("show", ["none", "names", "full"])
def test_controls_usage_and_cost_are_left_out(show):
    """Whatever an agent shows of its tools, these stay the operator's."""
    assert seen("step.started", {"n": 1, "controls": {"model": "m"}}, show) == {"n": 1}
    failed = {"n": 1, "attempt": 2, "code": "overloaded", "message": "m", "retryable": True, "usage": {}, "cost": "1"}
    assert seen("step.failed", failed, show) == {"n": 1, "attempt": 2, "retryable": True}
    assert seen("step.completed", {"n": 1, "usage": {}, "cost": "1"}, show) == {"n": 1}
    left = {"from_seq": 1, "to_seq": 2, "code": "file_refused", "files": ["f"], "names": ["a.pdf"]}
    assert seen("content.left_out", left, show) == {"from_seq": 1, "to_seq": 2, "names": ["a.pdf"]}
    body = {"stop_reason": "end_turn", "usage": {}, "cost": "1"}
    assert seen("run.completed", body, show) == {"stop_reason": "end_turn"}


@for_each("kind", ["message.received", "message.corrected"])
def test_operators_have_no_names_in_what_they_sent(kind):
    """A visitor reads who of the others wrote or corrected a message; to them all operators are one."""
    operator = {"id": "operator:key_1", "kind": "service", "name": "Night shift"}
    assert seen(kind, {"actor": operator, "parts": []})["actor"] == {"id": "operator", "kind": "service"}
    user = {"id": "u", "kind": "user", "name": "Xu"}
    assert seen(kind, {"actor": user, "parts": []})["actor"] == user


def test_names_of_tools_are_shown_without_contents():
    """By default a visitor sees which tool works, neither what with nor what came of it."""
    body = {"call": "c", "name": "n", "arguments": {"a": 1}, "index": 0, "step": 1}
    assert seen("tool.requested", body) == {"call": "c", "name": "n", "index": 0, "step": 1}
    assert seen("tool.started", {"call": "c"}) == {"call": "c"}
    body = {"call": "c", "outcome": "done", "parts": [PARTS[0]], "truncated": True, "ref": "blob", "loaded": [{}]}
    assert seen("tool.completed", body) == {"call": "c", "outcome": "done", "truncated": True}
    assert seen("tool.progress", {"call": "c", "text": "secret"}) is None


def test_full_shows_tools_and_none_hides_them():
    """An agent may show everything of its tools, or not even that it has some."""
    for kind in (*CONTENTS, "tool.progress"):
        body = {"call": "c", "name": "n", "on": "approval", "arguments": {}}
        assert seen(kind, body, "full") == body
        assert seen(kind, body, "none") is None


def test_parts_of_tools_follow_the_same_rule():
    """Parts in messages are whole, without contents, or gone; text and files always stay."""
    assert visible_parts(PARTS, "full") == PARTS
    call, result = (
        {"type": "tool_call", "call": "c", "name": "n"},
        {"type": "tool_result", "call": "c", "outcome": "done"},
    )
    assert visible_parts(PARTS, "names") == [PARTS[0], call, result, PARTS[3]]
    assert visible_parts(PARTS, "none") == [PARTS[0], PARTS[3]]
    body = {"message": "m", "role": "assistant", "parts": PARTS, "stop": "tools"}
    assert seen("message.completed", body, "none")["parts"] == [PARTS[0], PARTS[3]]


@for_each("show", ["none", "names", "full"])
def test_visitors_see_sources_on_the_web(show):
    """The citations of an answer are a part of it; names of sources that are no web address are the operator's.

    What such a source says, and its title, are contents of a tool: they are shown where those are.
    """
    quoted = {"start": 0, "end": 4, "text": "Rain", "title": "Oslo", "url": "https://a.example", "index": 0}
    inside = {"start": 0, "end": 4, "text": "The salary of Bob", "title": "salaries.pdf", "index": 3}
    part = {"type": "text", "text": "Rain", "citations": [quoted, {**inside, "source": "s3://inside/notes"}]}
    (kept,) = visible_parts([part], show)
    assert kept == {**part, "citations": [quoted, inside if show == "full" else {"start": 0, "end": 4}]}
    body = {"message": "m", "role": "assistant", "parts": [part], "stop": "done", "native": {"model": "a:b"}}
    assert seen("message.completed", body, show) == {
        "message": "m",
        "role": "assistant",
        "parts": [kept],
        "stop": "done",
    }
    run = {"status": "completed", "stop_reason": "done", "output": {"text": "Rain", "parts": [part]}, "pending": []}
    assert visible_run(run, show)["output"]["parts"] == [kept]


def test_a_call_for_the_page_is_visible_to_the_page():
    """The visitor's own page sees what it is to execute, whatever the agent shows of its tools."""
    body = {"call": "c", "on": "client", "tool": "where", "arguments": {"what": "home"}}
    for show in ("none", "names", "full"):
        assert seen("tool.pending", body, show) == body
    held = {"call": "d", "on": "approval", "tool": "pay", "approval": "a"}
    calls = [body, {**held, "arguments": {"amount": 5}}]
    run = {"status": "requires_action", "stop_reason": None, "output": {"text": "", "parts": []}, "pending": calls}
    assert visible_run(run, "full")["pending"] == calls
    assert visible_run(run, "none")["pending"] == [body]
    assert visible_run(run, "names")["pending"] == [body, held]


def test_a_responder_sees_the_whole_call():
    """A responder sees the exact call and `may_decide`; the hook, the places and others' ids are the operator's."""
    words = {"responders": ["asker", "not_asker"], "may_decide": True}
    own = {"approval": "a", "call": "c", "tool": "pay", "arguments": {"amount": 5}, "title": "May it?", **words}
    for show in ("none", "names", "full"):
        assert seen("approval.requested", ASKED, show, decides=True) == own
        assert seen("approval.voted", VOTED, show, decides=True, own="x") == VOTED
        other = seen("approval.voted", VOTED, show, decides=True, own="y")
        assert other == {**VOTED, "by": {"id": "someone", "kind": "user", "name": "Xu"}}
        assert seen("approval.decided", DECIDED, show, decides=True) == DECIDED
    assert seen("approval.requested", ASKED, "full") == {**own, "may_decide": False}


def test_other_visitors_see_no_arguments():
    """Of a call that another person decides a visitor sees as much as the agent shows of its tools."""
    for kind, body in (("approval.requested", ASKED), ("approval.voted", VOTED), ("approval.decided", DECIDED)):
        assert seen(kind, body, "none") is None
        found = seen(kind, body, "names")
        assert found["approval"] == "a"
        assert not {"arguments", "hook", "deliver_to"} & set(found)
        assert "example.com" not in json.dumps(found)


@for_each("show", ["none", "names", "full"])
def test_a_structured_answer_is_an_answer(show):
    """A visitor sees it, unless it is the arguments of a tool that the agent does not show in full."""
    body = {"stop_reason": "end_turn", "structured": {"a": 1}}
    assert seen("run.completed", body, show) == body
    called = {"stop_reason": "no_executor", "structured": {"a": 1}}
    assert seen("run.completed", called, show) == (called if show == "full" else {"stop_reason": "no_executor"})
    output = {"text": "", "parts": [], "structured": {"a": 1}}
    run = {"status": "completed", "pending": [], "output": output}
    assert visible_run({**run, "stop_reason": "end_turn"}, show)["output"] == output
    shown = visible_run({**run, "stop_reason": "no_executor"}, show)["output"]
    assert ("structured" in shown) == (show == "full")


def test_live_events_are_judged_alike():
    """A heartbeat is for all visitors, a tool's progress is not."""
    beat = Live(session="s", run="r", parent_run=None, time=0, body=Heartbeat())
    progress = Live(session="s", run="r", parent_run=None, time=0, body=ToolProgress(call="c", text="secret"))
    assert visible(beat, "none") == b"{}"
    assert visible(progress, "names") is None
    assert visible(progress, "full") == progress.raw


@for_each("path", sorted(GOLDEN.glob("*.jsonl")))
@for_each("show", ["none", "names"])
def test_golden_logs_hold_nothing_of_the_operators(path, show):
    """Whole sessions, redacted, contain no key that belongs to the operator."""
    for line in path.read_text(encoding="utf-8").splitlines():
        given = json.loads(line)
        found = visible(fact(given["type"], given["data"]), show)
        if found is not None and given["type"] in {*FACTS, *LIVE}:
            body = json.loads(found)
            if body.get("on") == "client":  # the page's own
                continue
            assert not {"usage", "cost", "controls", "arguments", "ref"} & set(body), given
            assert not any("arguments" in part for part in body.get("parts", ())), given


def test_the_presets_of_a_tool_are_as_hidden_as_arguments():
    """A visitor who may not vote reads the author's words of an approval's detail, and no preset."""
    asked = {"detail": 'From the till.\nPreset: tenant = "acme"', "responders": ["operators"]}
    assert visible_approval(asked, "names", decides=False)["detail"] == "From the till."
    assert visible_approval(asked, "names", decides=True)["detail"] == asked["detail"]
    assert visible_approval({**asked, "detail": "Preset: a = 1"}, "names", decides=False)["detail"] is None
