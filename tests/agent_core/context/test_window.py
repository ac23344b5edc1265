"""The window: what the model sees of a session, folded from its facts."""

import msgspec

from agent_core import events as e
from agent_core.agent.frames import STOPPED_NOTE
from agent_core.agent.window import Window
from agent_core.events import Fact, FactBody
from agent_core.messages import UNKNOWN_USAGE, Message, Reasoning, Text, ToolResult, text_of
from agent_core.providers.base import Files
from tests.agent_core.history import called, closed, ended, history, opened, received, said, started, wish
from tests.cases import for_each


def encode(message: Message, _files: Files) -> bytes:
    return msgspec.json.encode(message)


def window_of(*bodies: FactBody | tuple[str | None, FactBody], first: int = 1) -> Window:
    window = Window(encode)
    window.apply(history(*bodies, first=first))
    return window


def spoken(window: Window) -> list[tuple[str, str]]:
    return [(entry.message.role, text_of(entry.message.parts)) for entry in window.entries]


def exchange(n: int, text: str, answer: str, *, seq: int) -> list[FactBody]:
    """Return a message and its answer, as seven facts from *seq* on."""
    step = e.StepStarted(n=1, attempt=1, message=f"msg_{n}", takes=(seq,), snapshot="s")
    end = e.RunCompleted(stop_reason="end_turn", usage=UNKNOWN_USAGE, cost=None)
    return [
        received(text, f"in_{n}"),
        e.RunQueued(),
        e.RunStarted(epoch=1),
        step,
        said(n, Text(answer)),
        closed(n),
        end,
    ]


def talk(count: int) -> list[FactBody]:
    """Return *count* exchanges from seq 1 on: the n-th, from 0, begins at seq 7n + 1."""
    return [body for n in range(count) for body in exchange(n, f"q{n}", f"a{n}", seq=7 * n + 1)]


def test_message_enters_where_a_step_consumes_it():
    """A message that arrived is not in the window until a step takes it, and then stands where the step began."""
    facts = [*opened("one"), started(takes=(1,)), received("two"), *called(1, wish("c1")), e.ToolStarted(call="c1")]
    assert spoken(window_of(*facts)) == [("user", "one"), ("assistant", "")]
    facts += [ended("c1"), started(2, takes=(5,)), said(2, Text("Both."))]
    roles = [role for role, _ in spoken(window_of(*facts))]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]
    assert spoken(window_of(*facts))[3] == ("user", "two")


def test_unconsumed_messages_stay_out():
    """A message that no step ever named is never in the window."""
    facts = [*opened("one"), received("two"), started(takes=(1,)), said(1, Text("One.")), closed()]
    assert spoken(window_of(*facts)) == [("user", "one"), ("assistant", "One.")]


def test_notes_and_corrections_are_taken_like_messages():
    """Notes and corrections enter where a step takes them, and say what they are."""
    note = e.ContextAdded(source="clock", text="It is noon.")
    correction = e.MessageCorrected(message="msg_in", parts=(Text("ten, not one"),))
    window = window_of(*opened("one"), note, correction, started(takes=(1, 4, 5)))
    assert [text for _, text in spoken(window)] == [
        "one",
        "[clock] It is noon.",
        "[Correction of an earlier message]\n\nten, not one",
    ]


def test_results_come_together_in_call_order():
    """The results of a step's calls enter together, once the last has come, in the order of the calls."""
    facts = [*opened(), started(takes=(1,)), *called(1, wish("c1"), wish("c2", x=1)), ended("c2", "second")]
    assert len(window_of(*facts).entries) == 2
    (last,) = window_of(*facts, ended("c1", "first")).entries[2:]
    assert last.message.role == "tool"
    assert [(p.call, text_of(p.parts)) for p in last.message.parts if isinstance(p, ToolResult)] == [
        ("c1", "first"),
        ("c2", "second"),
    ]


def test_failed_attempt_leaves_nothing():
    """Failed tries and their shown text leave no trace in the window, the completed message does, once."""
    failure = e.StepFailed(n=1, attempt=1, code="network", message="", retryable=True)
    facts = [*opened("one"), started(takes=(1,)), failure, started(attempt=2), said(1, Text("Hi."))]
    assert spoken(window_of(*facts)) == [("user", "one"), ("assistant", "Hi.")]


def test_a_stopped_answer_is_its_text_and_a_note():
    """A partial answer is seen later as its text only, without its reasoning, and a note says that it was stopped."""
    facts = [*opened(), started(takes=(1,)), said(1, Reasoning("Hm."), Text("Half a"), stop="cancelled", partial=True)]
    _, answer, note = window_of(*facts).entries
    assert answer.message == Message("assistant", (Text("Half a"),))
    assert note.message == Message("user", (Text(STOPPED_NOTE),))


@for_each(
    "end",
    [
        said(1, stop="refused"),
        said(1, stop="error", partial=True),
        said(1, Reasoning("Hm."), stop="cancelled", partial=True),
        said(1, Text(" \n")),
    ],
)
def test_blank_answer_is_left_out(end):
    """An answer of which nothing can be replayed is left out of the window, with its note."""
    assert [role for role, _ in spoken(window_of(*opened(), started(takes=(1,)), end))] == ["user"]


def test_blank_parts_are_dropped():
    """Blank parts, which some providers refuse to be sent, are dropped; the others stay as they are."""
    window = window_of(*opened(), started(takes=(1,)), said(1, Text("\n"), Reasoning(" "), Text("Hi.")))
    assert window.entries[1].message.parts == (Text("Hi."),)


def test_reasoning_is_replayed():
    """An answer's reasoning is part of the window, as long as the prefix before it stays."""
    window = window_of(*opened(), started(takes=(1,)), said(1, Reasoning("Hm."), Text("Hi.")))
    assert window.entries[1].message.parts == (Reasoning("Hm."), Text("Hi."))


@for_each(
    "change",
    [
        e.SnapshotFrozen(hash="h", reason="run"),
        e.ContextCompacted(kind="cut", from_seq=1, tokens_before=None, tokens_after=None),
    ],
)
def test_reasoning_from_before_a_new_prefix_is_dropped(change):
    """After a new snapshot or a compaction older reasoning is removed permanently, newer reasoning is replayed."""
    facts = [*opened(), started(takes=(1,)), said(1, Reasoning("Old."), Text("Hi."))]
    silent = [*opened(), started(takes=(1,)), said(1, Reasoning("Only."))]
    newer = [received("more"), started(2, takes=(7,)), said(2, Reasoning("New."), Text("Ho."))]
    window = window_of(*facts, change, *newer)
    thoughts = [part.text for x in window.entries for part in x.message.parts if isinstance(part, Reasoning)]
    assert thoughts == ["New."]
    assert spoken(window)[1] == ("assistant", "Hi.")
    assert [role for role, _ in spoken(window_of(*silent, change))] == ["user"]


def test_child_runs_are_left_out():
    """A window holds what root runs said; facts of child runs leave no trace."""
    window = window_of(*opened("one"), started(takes=(1,)))
    child = history(*(("run_2", body) for body in [received("do it"), started(takes=(5,))]), first=5)
    for fact in child:
        fact.parent_run = "run_1"
    window.apply(child)
    assert spoken(window) == [("user", "one")]
    assert window.seq == 6


def test_a_fact_is_folded_in_once():
    """Applying facts again changes nothing."""
    facts = history(*talk(3))
    window = Window(encode)
    window.apply(facts)
    before = [entry.wire for entry in window.entries]
    window.apply(facts)
    assert [entry.wire for entry in window.entries] == before


def test_a_preview_leaves_the_window_as_it_is():
    """Looking at what would be leaves the window and everything it has not yet shown as they were."""
    window = window_of(*opened(), received("later"), started(takes=(1,)), *called(1, wish("c1"), wish("c2", x=1)))
    before, seq = spoken(window), window.seq
    shown = window.preview([ended("c1"), ended("c2"), started(2, takes=(4,))])
    assert len(shown.entries) == len(before) + 2
    assert (spoken(window), window.seq) == (before, seq)
    window.apply(history(ended("c1"), ended("c2"), started(2, takes=(4,)), first=seq + 1))
    assert spoken(window) == spoken(shown)


def test_a_message_is_encoded_once():
    """Each message of a window is turned into request JSON once, when first asked for."""
    encoded: list[Message] = []

    def count(message: Message, _files: Files) -> bytes:
        encoded.append(message)
        return b"x"

    window = Window(count)
    window.apply(history(*talk(2)))
    assert encoded == []
    for _ in range(3):
        assert b"".join(entry.wire for entry in window.entries) == b"xxxx"
    assert len(encoded) == 4
    window.recode(encode)
    assert window.entries[0].wire == encode(encoded[0], {})


def test_a_cut_keeps_half_from_a_border_on():
    """A cut keeps at most what was asked, beginning with a message of a person, never between call and result."""
    window = window_of(*talk(10))
    fact = window.cut(keep=7)
    window.apply(history(fact, first=100))
    assert len(window.entries) == 6
    assert spoken(window)[0] == ("user", "q7")
    assert fact.tokens_before
    assert fact.tokens_after
    assert fact.tokens_after < fact.tokens_before


def test_a_cut_falls_back_to_the_newest_border():
    """When no border lies in the newer half, the newest one before it is cut at; the open run stays whole."""
    facts = [*talk(2), received("long"), started(takes=(15,))]
    for n in range(2, 12):
        facts += [*called(n - 1, wish(f"c{n}", x=n)), ended(f"c{n}"), started(n)]
    window = window_of(*facts)
    window.apply(history(window.cut(keep=4), first=200))
    assert spoken(window)[0] == ("user", "long")
    assert window.border == 0


def test_borders_are_messages_of_people():
    """A window may be cut only where a step took a message that someone sent, not at a note or a result."""
    note = e.ContextAdded(source="note", text="Go on.")
    facts = [*talk(1), *talk_with_note(note)]
    assert [entry.border for entry in window_of(*facts).entries] == [True, False, True, False, False, False]


def talk_with_note(note: e.ContextAdded) -> list[FactBody]:
    """Return a run from seq 8 on, whose second step takes a note."""
    return [
        received("two", "in_9"),
        e.RunQueued(),
        e.RunStarted(epoch=1),
        started(1, takes=(8,)),
        said(1, Text("One"), stop="length"),
        closed(1),
        note,
        started(2, takes=(14,)),
        said(2, Text("Two")),
    ]


def test_a_window_can_be_rebuilt_from_its_newest_part():
    """A window built from where the last cut begins, recalling what later steps take, equals the one that grew."""
    facts: list[Fact] = history(*talk(6))
    grown = Window(encode)
    grown.apply(facts)
    cut = grown.cut(keep=6)
    log = [*facts, *history(cut, *exchange(9, "q9", "a9", seq=44), first=43)]
    grown.apply(log)
    rebuilt = Window(encode)
    rebuilt.recall([fact for fact in log if fact.seq == 22])
    rebuilt.apply([fact for fact in log if fact.seq >= cut.from_seq])
    assert [(x.seq, x.border, x.wire) for x in rebuilt.entries] == [(x.seq, x.border, x.wire) for x in grown.entries]
    assert len(grown.entries) == 8
