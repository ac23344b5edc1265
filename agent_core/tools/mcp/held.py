"""Calls that a server of the legacy era holds open while it asks a person, and that cannot be made again."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from agent_core.tools.base import Elicitation, ElicitationAnswer, Outcome, ToolError
from agent_core.tools.mcp.questions import LiveQuestions, answer_of, taken_up

MAX_HELD, MAX_OF_ACTOR = 20, 3
"""Calls of one server that wait for people, or that have ended without being asked for: in all, and of one person."""
MAX_OF_ANONYMOUS = 10
"""Of them those of all anonymous visitors: one more such visitor costs nothing, so many are no more than a crowd."""
ANONYMOUS = "anonymous_"
"""How the ids of actors begin whom no site names."""
_LOST = (
    "It asked a person, and the call that waited for the answer is gone: this process, or the connection, is another "
    "one. Look whether it has done its work."
)
_MANY = (
    f"The server asked the person something; that was declined, since {MAX_HELD} of its calls wait for answers, "
    f"{MAX_OF_ACTOR} of this person's, or {MAX_OF_ANONYMOUS} of anonymous visitors."
)


@dataclass(slots=True)
class Progress:
    """Passes the lines of one call on to the reader that it has now."""

    shown: Callable[[str], None]
    plain: Callable[[str], str]

    def __call__(self, text: str) -> None:
        self.shown(self.plain(text))


@dataclass(slots=True, eq=False)
class HeldCall:
    """A call under way as *task* for the *actor* of this id, what it asks, and who sees its *progress* now."""

    questions: LiveQuestions
    task: "asyncio.Task[Outcome]"
    progress: "Progress"
    actor: str


class HeldCalls:
    """The calls to *server* that may have written already, by their ids; each takes one question at a time."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._held: dict[str, HeldCall] = {}

    async def begun(self, call: str, held: HeldCall, seconds: float) -> Outcome | None:
        """Return how a new call ends, or what it asks; None when neither comes within *seconds*."""
        return await self._next(call, held, seconds)

    async def resumed(
        self, call: str, answer: ElicitationAnswer | None, progress: Callable[[str], None], seconds: float
    ) -> Outcome | None:
        """Do as `begun` for a call that waits, once it has its *answer*; its end is unknown if it waits no more.

        A form may be answered after its question was declined. What the call asks now is another question then: the
        answer is not its, and it is returned as what the person is asked next.
        """
        held = self._held.pop(call, None)
        if held is None:
            return ToolError(_LOST, unknown=True)
        held.progress.shown = progress
        held.questions.reply(taken_up(answer).number, answer_of(answer))
        return await self._next(call, held, seconds)

    async def close(self) -> None:
        """End the calls that wait."""
        held, self._held = list(self._held.values()), {}
        await asyncio.gather(*(_ended(each) for each in held))

    async def _next(self, call: str, held: HeldCall, seconds: float) -> Outcome | None:
        try:
            while True:
                open_ = held.questions.open
                await asyncio.wait((held.task, open_), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                if held.task.done():
                    return held.task.result()
                if not open_.done():
                    await _ended(held)
                    return None
                if (asked := self._asked(call, held)) is not None:
                    return asked
                held.questions.reply(held.questions.asked().number, held.questions.declined(_MANY))
        except BaseException:
            await _ended(held)
            raise

    def _asked(self, call: str, held: HeldCall) -> Elicitation | None:
        """Return what *held* asks, and keep it; None when too many wait. What has ended makes room."""
        asked = held.questions.asked().elicitation(self._server)
        mine = {key: each for key, each in self._held.items() if each.actor == held.actor}
        crowd = {key: each for key, each in self._held.items() if each.actor.startswith(ANONYMOUS)}
        if not self._has_room(mine, MAX_OF_ACTOR):
            return None
        if held.actor.startswith(ANONYMOUS) and not self._has_room(crowd, MAX_OF_ANONYMOUS):
            return None
        if not self._has_room(self._held, MAX_HELD):
            return None
        self._held[call] = held
        return asked

    def _has_room(self, among: dict[str, HeldCall], most: int) -> bool:
        """Return whether fewer than *most* are left *among* the calls; the oldest that has ended goes if it must."""
        if len(among) < most:
            return True
        done = next((key for key, each in among.items() if each.task.done()), None)
        if done is not None:
            del self._held[done]
        return done is not None


async def _ended(held: HeldCall) -> None:
    held.task.cancel()
    await asyncio.wait((held.task,))
