"""What a card says: the exact call, whole and readable, and nothing that notifies or misleads anybody."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_

from agent_core.messages import Actor
from agent_core.objects import ApprovalObject, Vote
from channels.slack import limits
from channels.slack.cards import ALWAYS, APPROVE, DENY, EDIT, CardContext, pages
from channels.slack.forms import mrkdwn, outcome
from channels.slack.testing.blocks import check
from channels.slack.testing.shown import drawn, pings
from tests.cases import for_each

NOON = 1_767_268_800_000
ANN, BEN = Actor("slack:T0001:UANN", "user", "Ann Lee"), Actor("slack:T0001:UBEN", "user", "Ben Okoro")
HERE = CardContext("T0001", "payments")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=8,
)


def asked(arguments: dict[str, Any] | None = None, **more: Any) -> ApprovalObject:
    """Return a question about paying."""
    given = {"to": "Bob", "amount": 5} if arguments is None else arguments
    made: dict[str, Any] = {
        "id": "apr_1",
        "session": "ses_1",
        "run": "run_1",
        "agent": "agt_1",
        "call": "call_1",
        "step": 1,
    }
    made |= {
        "tool": "pay",
        "arguments": given,
        "asked": given,
        "digest": "d",
        "title": "May this be paid?",
        "detail": None,
    }
    made |= {"status": "open", "responders": ("asker", "operators"), "quorum": 1, "votes": (), "edit": False}
    made |= {
        "remember": False,
        "deliver_to": (),
        "on_timeout": "deny",
        "asker": ANN,
        "speakers": (),
        "requested_at": NOON,
    }
    return ApprovalObject(**{**made, "expires_at": NOON + 300_000, **more})


def decided(status: str = "approved", **more: Any) -> ApprovalObject:
    return asked(**{"status": status, "decided_by": BEN, "decided_at": NOON, **more})


def texts(found: ApprovalObject | None, about: CardContext = HERE) -> list[str]:
    return [drawn(list(page.blocks)) for page in pages(found, about)]


def actions(found: ApprovalObject, about: CardContext = HERE) -> dict[str, dict[str, Any]]:
    """Return the buttons of the last message by their action ids."""
    rows = [block for block in pages(found, about)[-1].blocks if block["type"] == "actions"]
    return {each["action_id"]: each for row in rows for each in row["elements"]}


def test_a_card_names_the_asker_the_call_and_its_responders():
    """Title, agent, asker, tool, arguments, responders and the end of the question are on the card."""
    [said] = texts(asked(detail="Above 3 a person looks."))
    assert said.split("\n") == [
        "May this be paid?",
        "payments asks for Ann Lee to use pay.",
        "Above 3 a person looks.",
        "to: Bob",
        "amount: 5",
        "To decide: Ann Lee, operators. Open until 2026-01-01 12:05 UTC.",
    ]


def test_the_buttons_are_those_that_the_policy_offers():
    """A yes asks once more when the tool writes; the conversation's yes and the form are there only where allowed."""
    plain = actions(asked())
    assert list(plain) == [APPROVE, DENY]
    assert plain[APPROVE]["confirm"]["title"]["text"] == "Run pay?"
    assert {each["value"] for each in plain.values()} == {"apr_1"}
    assert list(actions(asked(edit=True, remember=True))) == [APPROVE, ALWAYS, EDIT, DENY]
    assert "confirm" not in actions(asked(), replace(HERE, careful=False))[APPROVE]


@for_each(
    "found, said",
    [
        (decided(), "Approved by UBEN, 2026-01-01 12:00 UTC."),
        (decided("denied"), "Denied by UBEN, 2026-01-01 12:00 UTC."),
        (decided(decided_by=Actor("ops", "service")), "Approved by ops, 2026-01-01 12:00 UTC."),
        (decided(decided_by=Actor("slack:T9:UBEN", "user", "Ben")), "Approved by Ben, 2026-01-01 12:00 UTC."),
        (
            decided("expired", decided_by=None),
            "Not decided in time, 2026-01-01 12:00 UTC: so the call was denied.",
        ),
        (decided("cancelled"), "Not asked any more, 2026-01-01 12:00 UTC: the answer was stopped by UBEN."),
    ],
)
def test_a_decided_card_names_decider_decision_and_time(found: ApprovalObject, said: str):
    """Whatever became of the question, its card says so in the place of the buttons."""
    assert actions(found) == {}
    assert texts(found)[-1].split("\n")[-1] == said


def test_a_reason_and_what_was_corrected_are_shown():
    """A no shows its reason; corrected arguments are shown as they ran, and below them what was asked for."""
    assert texts(decided("denied", reason="Too <!channel> much"))[0].endswith("Too <!channel> much")
    edited = decided(arguments={"to": "Bob", "amount": 3, "fast": True}, asked={"to": "Bob", "amount": 5})
    assert texts(edited)[0].split("\n")[2:-1] == [
        "to: Bob",
        "amount: 3",
        "fast: true",
        "Asked for was:",
        "amount: 5",
        "Not asked for: fast",
    ]
    assert "with other arguments than were asked for" in texts(edited)[0]


def test_a_quorum_is_counted():
    """The approvals so far are on the card."""
    votes = (Vote(actor=BEN, approved=True, at=NOON, surface="slack"),)
    assert texts(asked(quorum=2))[0].endswith("0 of 2 who must say yes have.")
    assert texts(asked(quorum=2, votes=votes))[0].endswith("1 of 2 who must say yes: UBEN.")


def test_a_text_differs_from_a_number_and_spaces_are_visible():
    """What is no text is shown as code, and so is a text that would look like nothing."""
    [page] = pages(asked({"a": "5", "b": 5, "c": " x ", "d": "", "e": None}), HERE)
    elements = page.blocks[2]["elements"][0]["elements"]
    shown = [
        (each["text"], bool(each.get("style", {}).get("code")))
        for each in elements
        if not each.get("style", {}).get("bold")
    ]
    assert [each for each in shown if each[0] != "\n"] == [
        ("5", False),
        ("5", True),
        ('" x "', True),
        ('""', True),
        ("null", True),
    ]


def test_signs_that_mislead_are_written_out():
    """What turns the direction of reading, cannot be seen or passes for another letter is shown by its number."""
    hostile = {"to": "p\u0430ypal", "x\u200b": "a\u202eb", "note": "fine", "list": ["\u0440\u0430\u0443 me"]}
    [page] = pages(asked(hostile, title="pay\u202egnp", detail="a\u200bb"), HERE)
    said = json.dumps(page.blocks) + page.text
    assert "p\\\\u{430}ypal" in said
    assert "to mixes Latin and Cyrillic letters" in said
    assert "list mixes Latin and Cyrillic letters" in said
    assert "note mixes" not in said
    seen = "".join(map(_said, [*page.blocks, *page.plain.blocks])) + page.text
    assert [sign for sign in seen if not (sign.isprintable() or sign == "\n")] == []


def _said(part: Any) -> str:
    """Return all words of a part of a payload."""
    if isinstance(part, str):
        return part
    return (
        "".join(map(_said, part.values() if isinstance(part, dict) else part))
        if part and not isinstance(part, (bool, int))
        else ""
    )


def test_only_responders_are_notified():
    """Mentions in arguments, titles and names are words; the responders whom the agent's author names are called."""
    hostile = "<!channel> <@UCLEO> @here <https://evil.example|bank>"
    found = asked(
        {"to": hostile, "note": f"{hostile}\n{hostile}", hostile: 1},
        title=hostile,
        asker=Actor("x", "user", hostile),
        responders=("asker", "slack:UBEN", "slack:SDATA", "actor:slack:T0001:UANN", "actor:bob"),
    )
    for each in (found, with_(found, status="denied", reason=hostile, decided_by=found.asker, decided_at=NOON)):
        [page] = pages(each, HERE)
        wanted = ["@UBEN", "!subteam^SDATA", "@UANN"] if each.status == "open" else []
        assert list(pings(page.text, list(page.blocks))) == wanted
        assert list(pings("", list(page.plain.blocks))) == []


def test_long_arguments_are_shown_whole_above_the_buttons():
    """A long call continues in further messages; nothing is cut, and the buttons come with its last part."""
    body = "\n".join(f"line {n} of the letter" for n in range(2_000))
    found = asked({"to": "Bob", "letter": body, "rows": [{"n": n, "what": "x" * 40} for n in range(300)]})
    made = pages(found, HERE)
    assert len(made) > 5
    boxes = [
        element["elements"][0]["text"]
        for page in made
        for block in page.blocks
        for element in block.get("elements", [])
        if element.get("type") == "rich_text_preformatted"
    ]
    assert "".join(boxes) == body + json.dumps(found.arguments["rows"], indent=2)
    assert [any(block["type"] == "actions" for block in page.blocks) for page in made] == [
        *[False] * (len(made) - 1),
        True,
    ]
    done = pages(with_(found, status="denied", decided_by=BEN, decided_at=NOON), HERE, least=len(made))
    said = ["Denied by" in drawn(list(page.blocks)) for page in done]
    assert said == [True, *[False] * (len(made) - 2), True]


def test_a_card_never_has_fewer_messages_than_it_had():
    """What was shown in several messages and needs fewer says in those that are left what became of it."""
    made = pages(decided(), HERE, least=3)
    assert len(made) == 3
    assert [drawn(list(page.blocks)).split("\n")[-1] for page in made] == [
        "Approved by UBEN, 2026-01-01 12:00 UTC."
    ] * 3
    assert texts(None) == ["This question is not there any more."]


def test_the_same_is_said_as_text():
    """Whispers have mentions and times as Slack writes them, and everything else literal."""
    said = mrkdwn(outcome(decided("denied"), "T0001"))
    assert said == "Denied by <@UBEN>, <!date^1767268800^{date_short_pretty} at {time}|2026-01-01 12:00 UTC>."
    assert "&lt;b&gt;" in mrkdwn(outcome(decided(decided_by=Actor("x", "user", "<b>")), "T0001"))


@given(arguments=st.dictionaries(st.text(max_size=300), JSON, max_size=6), title=st.text(min_size=1, max_size=150))
def test_whatever_is_asked_slack_takes_it(arguments: dict[str, Any], title: str):
    """Any arguments make valid messages within every limit, and so do their plain forms."""
    if not title.strip():
        return
    for found in (asked(arguments, title=title), decided(arguments=arguments, title=title, asked={})):
        for page in pages(found, HERE):
            for form in (page, page.plain):
                assert check(list(form.blocks)) == []
                assert 0 < len(form.text) <= limits.TEXT
                rich = [block for block in form.blocks if block["type"] == "rich_text"]
                assert len(drawn(rich)) <= limits.RICH_TEXT
                assert len(json.dumps(form.blocks, ensure_ascii=False)) < 60_000
