"""What one process tells of its runs, and what another one makes of it: no database, no waiting."""

import msgspec
import pytest

from agent_core import events as e
from agent_core.events import Fact, FactBody, Live
from agent_core.messages import Text
from agent_core.store.codes import CODES
from agent_core.store.hub import Hub
from agent_core.store.log import RunRef
from agent_core.store.postgres_bus import Batch, Entry, Incoming, Outgoing, Row

SESSION = "ses_0123456789abcdef"
RUN = RunRef(
    key=7,
    id="run_1",
    session=3,
    session_id=SESSION,
    parent=None,
    epoch=1,
    agent=1,
    agent_version=1,
    snapshot="s",
    first_seq=1,
)
STEP = e.StepStarted(n=1, attempt=1, message="msg_1", takes=(), snapshot="s")
END = e.MessageCompleted(message="msg_1", role="assistant", parts=(Text("abcdef"),), stop="done")
ENTRY = 7_999
"""Bytes that a notification may have."""


class BusProcess:
    """A hub, and what it tells the others."""

    def __init__(self) -> None:
        self.hub, self.outgoing = Hub(), Outgoing()
        self._seq = 0

    def says(self, *bodies: FactBody | e.LiveBody) -> None:
        for body in bodies:
            if isinstance(body, e.LIVE_BODIES):
                event = Live(session=SESSION, run=RUN.id, parent_run=None, time=5, body=body)
                self.outgoing.live(RUN, event)
                self.hub.show(event)
            else:
                self._seq += 1
                facts = [fact(self._seq, body)]
                self.hub.publish(facts)
                self.outgoing.facts(facts)

    def flush(self) -> Batch:
        return self.outgoing.take(self.hub)


def fact(seq: int, body: FactBody) -> Fact:
    raw = msgspec.json.encode(body)
    return Fact(seq=seq, type=body.type, session=SESSION, run=RUN.id, parent_run=None, time=5, raw=raw, body=body)


def delta(offset: int, text: str, part: int = 0) -> e.TextDelta:
    return e.TextDelta(message="msg_1", part=part, epoch=1, attempt=1, offset=offset, text=text)


def texts(row: Row) -> list[tuple[int, int, str]]:
    items = msgspec.json.decode(row.data)[1]
    return [(item[2]["part"], item[2]["offset"], item[2]["text"]) for item in items]


@pytest.fixture
def here() -> BusProcess:
    """A process that others listen to, in the middle of a step."""
    process = BusProcess()
    process.outgoing.listen(has_listeners=True)
    process.says(e.RunStarted(epoch=1), STEP)
    process.flush()
    return process


def test_adjacent_pieces_of_a_part_are_merged(here: BusProcess):
    """A flush has one row per run, and in it one delta for what came together, with the offset of the first."""
    here.says(delta(0, "ab"), delta(2, "cd"), delta(0, "x", part=1), delta(4, "e"))
    batch = here.flush()
    assert [texts(row) for row in batch.rows] == [[(0, 0, "abcd"), (1, 0, "x"), (0, 4, "e")]]
    assert batch.entries == [("live", RUN.key, 0)]


def test_a_process_alone_gathers_nothing():
    """Without a subscriber there is nothing to flush; once there is one, everything open is flushed."""
    alone = BusProcess()
    alone.says(e.RunStarted(epoch=1), STEP, delta(0, "ab"), delta(2, "cd"))
    assert alone.flush().is_empty
    assert alone.outgoing.listen(has_listeners=True)
    batch = alone.flush()
    assert [texts(row) for row in batch.rows] == [[(0, 0, "abcd")]]
    assert ("fact", SESSION, 2) in batch.entries


def test_a_failed_flush_is_repeated_from_the_beginning(here: BusProcess):
    """The rows of a flush that failed are dropped; the next one has the open message whole."""
    here.says(delta(0, "ab"))
    here.outgoing.failed(here.flush())
    here.says(delta(2, "cd"))
    assert [texts(row) for row in here.flush().rows] == [[(0, 0, "abcd")]]


def test_a_complete_message_has_its_rows_removed_and_no_more_written(here: BusProcess):
    """Text that was not flushed before the end is not flushed: the fact has it all."""
    here.says(delta(0, "ab"))
    flushed = here.flush().rows[0]
    here.says(delta(2, "cdef"), END)
    batch = here.flush()
    assert not batch.rows
    assert [(x.session, x.run, x.epoch, x.n) for x in batch.over] == [(RUN.session, RUN.key, 1, flushed.n)]


def test_notifications_are_as_short_as_postgres_wants_them():
    """However many sessions have news, each notification stays within what Postgres takes."""
    facts: list[Entry] = [("fact", f"ses_{n:016}", 2**62) for n in range(1_000)]
    entries: list[Entry] = [*facts, *[("live", 2**62, 0)] * 1_000]
    notes = Batch([], [], entries).notes("bus_0123456789abcdef")
    assert [note for note in notes if len(note) > ENTRY] == []
    sent = [tuple(entry) for note in notes for entry in msgspec.json.decode(note[20:])]
    assert sent == entries


class BusListener:
    """A process that reads the session, and has it open at the step."""

    def __init__(self) -> None:
        self.hub, self.outgoing = Hub(), Outgoing()
        self.incoming = Incoming(self.outgoing)
        self.incoming.hub = self.hub
        self.incoming.join(SESSION)
        self.reader = self.hub.subscribe(SESSION)
        step = (2, CODES["step.started"], 5, msgspec.json.encode(STEP))
        self.incoming.begin(self.incoming.take_new(), [(SESSION, RUN.session, 2, RUN.key, RUN.id, None, *step)])

    def reads(self, *rows: Row) -> None:
        asked = self.incoming.take_runs()[1]
        self.incoming.show(asked, [(row.run, row.epoch, row.n, row.data) for row in rows])

    def learns(self, seq: int, body: FactBody) -> None:
        raw = msgspec.json.encode(body)
        self.incoming.learn([(SESSION, RUN.session, seq, CODES[body.type], 5, raw, RUN.key, RUN.id, None)])

    def seen(self) -> list[tuple[int, str] | str]:
        events = self.reader.take()
        return [(x.body.offset, x.body.text) if isinstance(x.body, e.TextDelta) else x.type for x in events]


def row(n: int, *bodies: e.LiveBody, step: int = 2) -> Row:
    items = [(body.type, 5, body) for body in bodies]
    return Row(RUN.session, RUN.key, 1, n, msgspec.json.encode((step, items)))


def test_a_hole_heals_when_the_rows_are_read_again():
    """Text after a hole is held back until the rows are read from the first one on, and then nothing is missing."""
    there = BusListener()
    there.reads(row(1, delta(0, "ab")), row(3, delta(4, "ef")))
    assert there.seen() == [(0, "ab")]
    there.incoming.read_all()
    there.reads(row(1, delta(0, "ab")), row(2, delta(2, "cd")), row(3, delta(4, "ef")))
    assert there.seen() == [(2, "cd"), (4, "ef")]


def test_what_was_shown_is_not_shown_again():
    """A message that is sent from its beginning again continues where it was."""
    there = BusListener()
    there.reads(row(1, delta(0, "abc")))
    there.incoming.notified_of_rows(RUN.key)
    there.reads(row(2, delta(0, "abcdef")))
    assert there.seen() == [(0, "abc"), (3, "def")]


def test_text_waits_for_its_step():
    """Rows of a step whose fact was not read yet are shown after it."""
    there = BusListener()
    later = e.StepStarted(n=2, attempt=1, message="msg_2", takes=(), snapshot="s")
    said = e.TextDelta(message="msg_2", part=0, epoch=1, attempt=1, offset=0, text="Next")
    there.reads(row(1, said, step=4))
    assert there.seen() == []
    assert there.incoming.is_behind
    assert there.incoming.take_stale() == ([SESSION], [2])
    there.learns(3, END)
    there.learns(4, later)
    there.reads(row(1, said, step=4))
    assert there.seen() == ["message.completed", "step.started", (0, "Next")]


def test_unknown_live_events_of_a_newer_version_are_skipped():
    """A live event of an unknown kind or shape, and a row of an unknown one, cost nothing of what is beside them."""
    there = BusListener()
    mixed = (2, [("tool.drawing", 5, {"x": 1}), ("text.delta", 5, {"ink": 7}), ("text.delta", 5, delta(0, "ab"))])
    strange = [Row(RUN.session, RUN.key, 1, n, data) for n, data in ((2, b'{"step": 2}'), (3, b"\x00"))]
    there.reads(Row(RUN.session, RUN.key, 1, 1, msgspec.json.encode(mixed)), *strange, row(4, delta(2, "cd")))
    assert there.seen() == [(0, "ab"), (2, "cd")]


def test_an_unknown_fact_of_a_newer_version_is_skipped():
    """Later facts are published, and waiting for the unknown one ends."""
    there = BusListener()
    there.incoming.notified_of_facts(SESSION, 4)
    assert there.incoming.take_stale() == ([SESSION], [2])
    known = (SESSION, RUN.session, 4, CODES["message.completed"], 5, msgspec.json.encode(END), RUN.key, RUN.id, None)
    there.incoming.learn([(SESSION, RUN.session, 3, 9_999, 5, b'{"ink": 7}', RUN.key, RUN.id, None), known])
    assert there.seen() == ["message.completed"]
    there.incoming.learn([(SESSION, RUN.session, 5, 9_999, 5, b"{}", RUN.key, RUN.id, None)])
    assert there.seen() == []
    assert there.incoming.reached(SESSION, 5) is None


def test_the_rest_of_a_message_is_shown_with_its_end():
    """Text that was not received before the end is taken from the fact, so that all deltas together are the text."""
    there = BusListener()
    there.reads(row(1, delta(0, "abc")))
    there.learns(3, END)
    there.reads(row(2, delta(3, "def")))
    assert there.seen() == [(0, "abc"), (3, "def"), "message.completed"]


def test_what_a_process_says_of_a_run_that_it_lost_is_not_shown(here: BusProcess):
    """Once another process has taken a run, the former driver's text reaches no reader."""
    incoming = Incoming(here.outgoing)
    incoming.hub = here.hub
    incoming.join(SESSION)
    event = Live(session=SESSION, run=RUN.id, parent_run=None, time=5, body=delta(0, "old"))
    assert here.outgoing.live(RUN, event)[0]
    raw = msgspec.json.encode(e.RunResumed(epoch=2, cause="crashed"))
    incoming.learn([(SESSION, RUN.session, 3, CODES["run.resumed"], 5, raw, RUN.key, RUN.id, None)])
    assert here.outgoing.live(RUN, event) == (False, False)
    here.says(e.RunResumed(epoch=3, cause="crashed"))
    assert not here.outgoing.live(RUN, event)[0], "the driver of an older epoch shows nothing any more"
    again = msgspec.structs.replace(RUN, epoch=3)
    assert here.outgoing.live(again, event)[0], "until it takes the run again"


def test_of_a_run_that_was_let_go_nothing_is_kept(here: BusProcess):
    """Its text is no longer flushed, and a resume drops the open message of the step before it."""
    here.says(delta(0, "ab"))
    assert here.outgoing.release(RUN.id, RUN.epoch)
    assert here.flush().rows == []
    assert here.outgoing.drives(SESSION) == 0
    assert here.hub.open_messages(SESSION)
    here.says(e.RunResumed(epoch=2, cause="outage"))
    assert here.hub.open_messages(SESSION) == []
    assert not here.outgoing.release(RUN.id, RUN.epoch), "it was taken again: what let go then has no say now"
    assert here.outgoing.drives(SESSION) == 3


def test_a_resume_that_is_read_late_takes_no_run_away(here: BusProcess):
    """Another process took the run, and this one took it back before it read so in the log."""
    incoming = Incoming(here.outgoing)
    incoming.hub = here.hub
    incoming.join(SESSION)
    here.says(e.RunResumed(epoch=3, cause="crashed"), STEP)
    raw = msgspec.json.encode(e.RunResumed(epoch=2, cause="crashed"))
    incoming.learn([(SESSION, RUN.session, 3, CODES["run.resumed"], 5, raw, RUN.key, RUN.id, None)])
    assert here.outgoing.drives_run(RUN.id)
    here.says(msgspec.structs.replace(delta(0, "new"), epoch=3))
    assert here.hub.open_messages(SESSION)
