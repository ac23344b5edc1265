"""The matrix of faults of events and calls: alone and in pairs they lose and duplicate nothing."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Literal

import pytest

from agent_core.events import StepStarted
from agent_core.providers.base import Request
from agent_core.testing import Answer, by_step, call
from agent_core.tools.functions import tool
from channels.slack.picture import BLANK
from channels.slack.testing import Armed, Dispatched, InjectedFault
from tests.channels.slack.answers import ANSWER, BEFORE_TOOL, words
from tests.channels.slack.conversations import converse, is_done, spoken
from tests.channels.slack.rig import Rig, texts
from tests.conftest import Fresh
from tests.polling import PATIENCE

pytestmark = [pytest.mark.sqlite]  # as with a crowd: the time is virtual

PING = 0.1
"""Seconds between the pings of a socket."""
GROUPS = {None: 4, PING: 1}
"""Conversations in a row have one workspace and one core in each of as many tests, by whether there is a socket."""
FEW = 20
"""Of so many pairs one is tried where not all are."""
BREATH, LATER = 3.0, 10.0
"""Seconds between two things that people do, and those after which nothing more comes."""
BESIDE = frozenset({"1", "2", "3", "count", "rows"})


@dataclass(frozen=True)
class Wrong:
    """A fault: of a call at any time, or of the event of one action of people."""

    fault: InjectedFault
    with_event: Literal["ask", "reply"] | None = None

    @property
    def is_deaf(self) -> bool:
        return self.fault.kind == "deaf_socket"

    def __str__(self) -> str:
        fault = self.fault
        often = "" if fault.times == 1 else f" times {fault.times}"
        return f"{fault.kind}{'+' if fault.effect else ''} {self.with_event or ''} {fault.on} {fault.nth}{often}"


SAYING = ("chat.startStream", "chat.appendStream", "chat.stopStream", "chat.postMessage", "chat.update")
STREAMING = ("chat.startStream", "chat.appendStream", "chat.stopStream")
CALLS = (
    *(InjectedFault("ratelimited", on=on, seconds=2) for on in (*SAYING, "agents.sessions.setStatus")),
    *(InjectedFault("server_error", on=on) for on in (*SAYING, "agents.sessions.setStatus", "conversations.replies")),
    *(InjectedFault("server_error", on=on, effect=True) for on in (*SAYING, "agents.sessions.setStatus")),
    *(InjectedFault("answer_lost", on=on) for on in (*SAYING, "agents.sessions.setStatus", "conversations.replies")),
    *(InjectedFault("request_lost", on=on) for on in (*SAYING, "agents.sessions.setStatus")),
    *(InjectedFault("invalid_blocks", on=on) for on in ("chat.stopStream", "chat.postMessage", "chat.update")),
    *(
        InjectedFault("invalid_blocks", on=on, times=times)
        for on in ("chat.postMessage", "chat.update")
        for times in (2, None)
    ),
    *(InjectedFault("refused", on=on, code="invalid_blocks", times=times) for on in STREAMING for times in (1, None)),
    *(InjectedFault("stream_closed", on=on) for on in ("chat.appendStream", "chat.stopStream")),
    InjectedFault("refused", on="chat.startStream"),
    InjectedFault("refused", on="agents.sessions.setStatus", code="not_allowed"),
)
WRONG = (
    *(Wrong(fault) for fault in CALLS),
    *(Wrong(InjectedFault("duplicate", on=on), "ask") for on in ("app_mention", "message")),
    *(Wrong(InjectedFault("late", on=on, seconds=45), "ask") for on in ("app_mention", "message")),
    Wrong(InjectedFault("late", seconds=45, times=2), "ask"),
    Wrong(InjectedFault("out_of_order", on="app_mention"), "ask"),
    Wrong(InjectedFault("duplicate", on="message"), "reply"),
    Wrong(InjectedFault("late", on="message", seconds=45), "reply"),
    Wrong(InjectedFault("out_of_order", on="message"), "reply"),
    Wrong(InjectedFault("deaf_socket", on="socket")),
)
Case = tuple[Wrong, ...]
UNCERTAIN_APPEND: Case = (
    Wrong(InjectedFault("server_error", on="chat.appendStream", effect=True)),
    Wrong(InjectedFault("ratelimited", on="chat.stopStream", seconds=2)),
)
"""Two calls of one message: the append may not be repeated while the stream cannot be ended."""


def cases(*, whole: bool) -> Iterator[Case]:
    """Yield each wrong alone, and pairs; or each event, each kind of fault of every third call, and some pairs."""
    kinds = Counter[object]()
    for wrong in WRONG:
        fault = wrong.fault
        kind = fault.kind, fault.effect, fault.times, fault.code
        if whole or kinds[kind] % 3 == 0 or wrong.with_event or wrong.is_deaf:
            yield (wrong,)
        kinds[kind] += 1
    if whole:
        yield from combinations_with_replacement(WRONG, 2)
        return
    yield UNCERTAIN_APPEND
    received = [wrong for wrong in WRONG if wrong.with_event or wrong.is_deaf]
    called = [wrong for wrong in WRONG if wrong not in received]
    pairs = [(wrong, received[n % (len(received) - 1)]) for n, wrong in enumerate(called)]
    yield from (*pairs, *zip(received, received[3:], strict=False))[::FEW]


@tool
def count_rows() -> str:
    """Count the rows."""
    return "3"


def answered(asked: Request) -> Answer:
    """Answer the first question by a look at the figures, a second one at once, and to a correction nothing."""
    said = texts(asked)
    if said[-1].startswith("sec"):
        return spoken(("Second ", "answer."), 2.0)
    if any(text.startswith("sec") for text in said):
        return []
    first = [*spoken(("Let me **look** ", "at the figures."), 2.0), call("count_rows")]
    rest = spoken(("There are *three* ", "of them:\n\n1. one\n", "2. two\n3. three\n"), 2.0)
    return by_step(first, rest)(asked)


@dataclass
class Conversation:
    """Two questions in a thread that streams, and one in a thread that does not."""

    rig: Rig
    wrongs: Case
    calls: int = 0

    async def held(self) -> list[Armed]:
        """Hold it while it goes wrong, see all answered, and return what went wrong.

        *calls* is how often the model was to be asked: once for each step. Whether the edit comes before its message is
        taken, while that is answered or after it, when it has a run of its own, is a matter of time; the model has no
        word for it then, and a blank answer is asked for once more: two steps, in a run of their own or in that one.
        """
        rig, team = self.rig, self.rig.team
        armed = [rig.stand_in.fault(wrong.fault) for wrong in self.wrongs if wrong.with_event is None]
        armed += self._arm("ask")
        streamed = await team.mentions("UANN", "CGENERAL", "How many?")
        posted = await team.mentions("UBEN", "CDATA", "How many?")
        await rig.clock.sleep(BREATH)
        armed += self._arm("reply")
        reply = await team.says("UBEN", "CGENERAL", "secnod", streamed.ts)
        edit = await team.edits("UBEN", "CGENERAL", reply.ts, "second")
        for dispatched in (streamed, posted, reply, edit):
            await self._dispatched(dispatched)
        with suppress(TimeoutError):
            await rig.stand_in.until(lambda: self._is_right(streamed.ts, posted.ts), timeout=PATIENCE)
        await rig.clock.sleep(LATER)
        assert self._is_right(streamed.ts, posted.ts), self._seen(streamed.ts, posted.ts)
        assert await rig.said("CGENERAL", streamed.ts) in (["How many?", "secnod"], ["How many?", "second"])
        assert await rig.said("CDATA", posted.ts) == ["How many?"]
        session = await rig.session("CGENERAL", streamed.ts)
        assert session is not None
        assert len((await rig.core.runs(session=session.id)).items) in (2, 3)
        self.calls = await self._steps("CGENERAL", streamed.ts) + await self._steps("CDATA", posted.ts)
        assert self.calls in (5, 6, 7)
        return armed

    async def _steps(self, channel: str, root: str) -> int:
        """Return how many steps the runs of a thread took, attempts that began again counted."""
        session = await self.rig.session(channel, root)
        assert session is not None
        batches = [batch async for batch in self.rig.core.follow(session.id, until_idle=True)]
        return sum(event.type == StepStarted.type for batch in batches for event in batch)

    def _is_right(self, streamed: str, posted: str) -> bool:
        """Return whether both threads have their whole answers, nothing is open, and no answer is in pieces."""
        team, whole = self.rig.team, f"{BEFORE_TOOL}\n\n{ANSWER}"
        is_right = self._shown("CGENERAL", streamed) == said_in(f"{whole} Second answer.")
        is_right = is_right and self._shown("CDATA", posted) == said_in(whole)
        answers = [len(self._answers("CGENERAL", streamed)), len(self._answers("CDATA", posted))]
        return is_right and answers == [2, 1] and is_done(team, "CGENERAL", streamed) and is_done(team, "CDATA", posted)

    def _seen(self, streamed: str, posted: str) -> str:
        """Return what people see in the two threads."""
        team, places = self.rig.team, (("CGENERAL", streamed), ("CDATA", posted))
        return "\n".join(f"{team.session(*place)} {[each.text for each in team.answers(*place)]}" for place in places)

    def _arm(self, stage: str) -> list[Armed]:
        return [self.rig.stand_in.fault(wrong.fault) for wrong in self.wrongs if wrong.with_event == stage]

    async def _dispatched(self, dispatched: Dispatched) -> None:
        assert (await dispatched.finished()).acked

    def _shown(self, channel: str, root: str) -> list[str]:
        return said_in(" ".join(self._answers(channel, root)))

    def _answers(self, channel: str, root: str) -> list[str]:
        """Return the answers of a thread but for the sentence that there is none to a correction."""
        return [each.text for each in self.rig.team.answers(channel, root) if each.text != BLANK]


def shadows(case: Case) -> bool:
    """Return whether one fault of a pair may leave no call for the other to strike.

    Of one method, because a call that was made, or finally refused, is not made again; of streams, because where one
    is refused nothing more is streamed.
    """
    faults = [wrong.fault for wrong in case if wrong.with_event is None]
    same = len(faults) == len(case) > len({fault.on for fault in faults})
    streams = len(faults) == len(case) > 1 and all(fault.on in STREAMING for fault in faults)
    return same or (streams and any(fault.kind == "refused" for fault in faults))


def said_in(text: str) -> list[str]:
    """Return the words of *text* but for those that the agent did not say: names of tools, numbers of lists."""
    return [word for word in words(text) if word not in BESIDE]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("socket", "group"),
    [
        pytest.param(socket, group, id=f"{'requests' if socket is None else 'socket'}-{group}")
        for socket, groups in GROUPS.items()
        for group in range(groups)
    ],
)
def test_faults_lose_and_duplicate_nothing(fresh: Fresh, whole: bool, socket: float | None, group: int):
    """Under each fault, alone and with another: every question is answered once, every word is shown once."""
    deaf: Callable[[Case], bool] = lambda case: any(wrong.is_deaf for wrong in case)  # noqa: E731 - a condition
    chosen = [case for case in cases(whole=whole) if deaf(case) == (socket is not None)][group :: GROUPS[socket]]

    async def play(rig: Rig) -> None:
        space = await rig.workspaces.space("T0001")
        for case in chosen:
            space.streams, space.without_streams = True, {"CDATA"}
            calls, conversation = rig.model.calls, Conversation(rig, case)
            try:
                armed = await conversation.held()
            except AssertionError as error:
                raise AssertionError(" and ".join(map(str, case))) from error
            assert any(each.struck for each in armed), " and ".join(map(str, case))
            assert shadows(case) or all(each.struck for each in armed), " and ".join(map(str, case))
            assert rig.model.calls - calls == conversation.calls, " and ".join(map(str, case))
            rig.stand_in.faults.armed.clear()

    converse(fresh, play, answered, socket=socket, tools=(count_rows,))
