"""`parley chat`: what it talks to, and how lines are read where no one edits them."""

import asyncio
import codecs
import getpass
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, cast

from msgspec.structs import replace

from agent_core.channels import Inbound
from agent_core.clock import Clock, SystemClock
from agent_core.messages import Actor
from agent_core.objects import Receipt
from app.cli.chat.conversation import BRIEF, INTERRUPT, Port, chosen_agent, converse, opened_port, own_session
from app.cli.chat.piped import Piped, answer
from app.cli.client import json_option
from app.settings import Settings, load_settings
from channels.terminal import Terminal
from channels.text import one_line


class Lines:
    """The lines of standard input, and those that `put` adds; they end with the input.

    A thread reads them: as a daemon it holds up no exit, and the raw descriptor has no lock that it could die with.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        threading.Thread(target=self._read, name="parley-lines", daemon=True).start()

    def put(self, line: str | None) -> None:
        """Add a line; None is the end."""
        self._lines.put_nowait(line)

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            self.put(None)
            raise StopAsyncIteration
        return line

    def _read(self) -> None:
        decoder, rest = codecs.getincrementaldecoder("utf-8")("replace"), ""
        # A loop that has ended takes no more lines, and needs none.
        with suppress(RuntimeError):
            while chunk := os.read(self._descriptor, 65536):
                *lines, rest = (rest + decoder.decode(chunk)).split("\n")
                for line in lines:
                    self._loop.call_soon_threadsafe(self.put, line)
            if rest:
                self._loop.call_soon_threadsafe(self.put, rest)
            self._loop.call_soon_threadsafe(self.put, None)


OPTION, SETTING = "--tool-context", "PARLEY_DEMO_TOOL_CONTEXT"


@dataclass(frozen=True, slots=True)
class ContextOption:
    """The *tool_context* of each message, and which option or setting it is *by*; it may hold secrets."""

    tool_context: dict[str, Any] = field(default_factory=dict[str, Any], repr=False)
    by: str = OPTION

    @property
    def greeting(self) -> str:
        """What a conversation begins with: the names of what the tools are given, never the values."""
        names = ", ".join(f"`{one_line(name)}`" for name in self.tool_context)
        return f"{BRIEF}\n(the tools get {names} from {self.by})" if names else BRIEF


def context_option(option: str | None, settings: Settings) -> ContextOption:
    """Return what *option* gives, a JSON object, else what the demo page of this machine's server gives its tools.

    A server that PARLEY_URL names has a demo page of its own, of which the settings here say nothing.
    """
    if option is not None:
        return ContextOption(json_option(OPTION, option, """write one JSON object, such as '{"customer": "C-1"}'."""))
    if settings.url is not None:
        return ContextOption()
    return ContextOption(settings.demo_tool_context or {}, SETTING)


class ContextPort:
    """A port that sends each message with a *tool_context*, which replaces the agent's own."""

    def __init__(self, port: Port, tool_context: dict[str, Any]) -> None:
        self._port, self._tool_context = port, tool_context

    async def receive(self, session: str, inbound: Inbound) -> Receipt:
        """Post a message."""
        controls = replace(inbound.controls, tool_context=self._tool_context)
        return await self._port.receive(session, replace(inbound, controls=controls))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


PROMPT = "> "
INTERRUPTED = 130
MAX_COLUMNS = 10_000
"""Columns of a line at most, whatever the environment says."""


def chat(
    *,
    agent: str | None,
    session: str | None,
    message: str | None,
    history: bool = True,
    tool_context: str | None = None,
) -> int:
    """Answer *message* once, or talk until the person leaves; return the exit code.

    With *history* what is typed is kept for the next conversation, in a file of its owner's. *tool_context*, JSON, is
    given to the tools with each message, else what the settings give those of the demo page.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue] - both are text files
    settings = load_settings(serving=False)
    by = context_option(tool_context, settings)
    try:
        return asyncio.run(_chat(agent, session, message, by, settings if history else None))
    except KeyboardInterrupt:
        return INTERRUPTED


async def _chat(
    agent: str | None, session: str | None, message: str | None, by: ContextOption, settings: Settings | None
) -> int:
    clock = SystemClock()
    async with opened_port(clock) as opened:
        port = cast("Port", ContextPort(opened, by.tool_context)) if by.tool_context else opened
        if session is None:
            agent = await chosen_agent(port, agent)
            session = (await port.open_session(agent=agent, actor=_person())).id
        else:
            agent = (await own_session(port, session, _person())).agent
        if _is_able():
            from app.cli.chat.live import ask_live, talk_live

            me, greeting, history = _person(), by.greeting, _history(settings)
            if message is not None:
                return 0 if await ask_live(port, me, clock, session, message) else 1
            await talk_live(port, me, clock, agent=agent, session=session, history=history, greeting=greeting)
            return 0
        if message is not None or not sys.stdin.isatty():
            return await _answer_plainly(port, clock, agent, session, message)
        await _talk_plainly(port, clock, agent, session, by.greeting)
        return 0


async def _answer_plainly(port: Port, clock: Clock, agent: str, session: str, message: str | None) -> int:
    """Answer *message*, else each line of a pipe."""
    terminal = _terminal("")
    if message is not None:
        return 0 if await answer(port, terminal, clock, session, message) else 1
    piped = Piped(port, terminal, clock, agent=agent, session=session)
    return 0 if await piped.answer_all(Lines()) else 1


async def _talk_plainly(port: Port, clock: Clock, agent: str, session: str, greeting: str) -> None:
    """Talk in plain lines, as a terminal without abilities can take them."""
    terminal, lines = _terminal(PROMPT), Lines()
    terminal.tell(greeting)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lines.put, INTERRUPT)
    await converse(port, terminal, clock, lines, agent=agent, session=session)


def _is_able() -> bool:
    """Return whether lines can be edited and redrawn here: on a terminal that takes commands, not in a pipe."""
    on_screen = sys.stdin.isatty() and sys.stdout.isatty()
    return on_screen and os.environ.get("TERM", "dumb").lower() not in ("", "dumb", "unknown")


def _history(settings: Settings | None) -> Path | None:
    """Return the file of what was typed, in PARLEY_DATA if that is here, else in the person's state folder."""
    if settings is None:
        return None
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "parley"
    return (settings.data if settings.data.is_dir() else state) / "chat_history"


def _person() -> Actor:
    name = "unknown"
    with suppress(OSError, KeyError, ImportError):
        name = getpass.getuser()
    return Actor(id=f"terminal:{name}", kind="user", name=name)  # rules know by the id that it is no other caller


def _terminal(prompt: str) -> Terminal:
    """Return the terminal of this process: live on a screen, else answers alone go to standard output."""
    live = sys.stdout.isatty()
    dim = live and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    note = _writer(sys.stdout if live else sys.stderr, dim=dim)
    return Terminal(_person(), write=_writer(sys.stdout), note=note, live=live, prompt=prompt, width=columns_here())


def columns_here() -> int:
    """Return the columns of the person's terminal, also where the answers go into a pipe; 80 where there is none."""
    return min(_columns(), MAX_COLUMNS)


def _columns() -> int:
    if os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    for stream in (sys.stdout, sys.stderr, sys.stdin):
        with suppress(OSError, ValueError):
            return os.get_terminal_size(stream.fileno()).columns or shutil.get_terminal_size().columns
    return shutil.get_terminal_size().columns


def _writer(stream: TextIO, *, dim: bool = False) -> Callable[[str], None]:
    def write(text: str) -> None:
        stream.write(f"\x1b[2m{text}\x1b[22m" if dim else text)
        stream.flush()

    return write
