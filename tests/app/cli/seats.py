"""A seat at a terminal: a keyboard, a screen of 60 columns, and a conversation."""

import asyncio
import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from agent_core.clock import SystemClock
from agent_core.core import Core
from agent_core.messages import Actor
from agent_core.testing import FakeClock, ScriptedProvider, by_step, call, say
from app.cli.chat.area import InputArea
from app.cli.chat.conversation import converse
from app.cli.chat.live import AreaPanel, showing_in
from tests.agent_core.asking import Till, asks
from tests.polling import PATIENCE, until

ANN = Actor("ann", "user", "Ann")
PAYS = by_step((say("Paying."), call("pay", amount=5)), (say("Paid."),))
UP, DOWN, ESC, LEAVE, STOP = "\x1b[A", "\x1b[B", "\x1b", "\x04", "\x03"
PASTED = "\x1b[200~y\r\na\r\n\x1b[201~"
CODES = re.compile(r"\x1b(\[[\d;?]*[a-zA-Z]|\][^\x07]*\x07)")


class Seat:
    """A person's keyboard and screen; *out* is all that was written to it, with the codes."""

    def __init__(self, keyboard: PipeInput, history=None) -> None:
        self._keyboard, self._screen = keyboard, io.StringIO()
        self.columns = 60
        output = Vt100_Output(self._screen, lambda: Size(rows=24, columns=self.columns), term="xterm", enable_cpr=False)
        self.clock = FakeClock()
        self.area = InputArea(self.clock, history=history, input=keyboard, output=output, reads=True)

    @property
    def out(self) -> str:
        return self._screen.getvalue()

    @property
    def text(self) -> str:
        """What was written, without the codes and with single spaces."""
        return " ".join(CODES.sub("", self.out).split())

    def press(self, keys: str) -> None:
        self._keyboard.send_text(keys)

    async def shows(self, words: str, *, times: int = 1) -> None:
        await until(lambda: self.text.count(words) >= times)

    async def waits(self) -> None:
        """Let time pass on a screen that is drawn before and after."""
        for _ in range(3):
            drawn = self.area.app.render_counter
            self.area.app.invalidate()
            await until(lambda drawn=drawn: self.area.app.render_counter > drawn)
            self.clock.advance(1.0)

    async def is_asked(self) -> None:
        """Return once the list of a question has the keys."""
        await until(lambda: self.area.question is not None)
        await self.waits()
        assert self.area.is_picking


@asynccontextmanager
async def seated(core: Core, *, history=None) -> AsyncIterator[Seat]:
    """Give a seat in a conversation with the assistant, which ends with the block."""
    with create_pipe_input() as keyboard:
        seat = Seat(keyboard, history)
        session = (await core.open_session(agent="assistant", actor=ANN)).id
        async with seat.area.running(catches_interrupt=False), showing_in(seat.area, ANN, core.approvals) as terminal:
            lines, panel = aiter(seat.area.entries), AreaPanel(seat.area)
            talking = asyncio.create_task(
                converse(core, terminal, SystemClock(), lines, agent="assistant", session=session, panel=panel)
            )
            try:
                yield seat
            finally:
                seat.area.entries.queue.put_nowait(None)
                async with asyncio.timeout(PATIENCE):
                    await talking


async def paying(make_core, provider: ScriptedProvider, **config) -> tuple[Core, Till]:
    till = Till()
    tools = till.tools()
    definition = {"hooks": (asks(**config),), "tools": tuple(tool.spec.name for tool in tools)}
    return await make_core(provider, tools=tools, definition=definition), till
