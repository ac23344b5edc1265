"""Whole conversations: people in the stand-in, slack-bolt, a core, and answers in threads, by a clock that leaps."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agent_core.agents import Definition
from agent_core.core import Core
from agent_core.providers.base import Request
from agent_core.testing import Answer, FakeClock, say
from agent_core.testing import sleep as lasting
from agent_core.tools.base import Tool
from app.compose import CHANNELS
from channels.slack.testing import Team, VisibleMessage
from tests.channels.slack.crowds import HeldDatabase, Leaping, leap
from tests.channels.slack.rig import Rig, rigged
from tests.conftest import Fresh
from tests.polling import PATIENCE

Play = Callable[[Rig], Awaitable[None]]


def converse(
    fresh: Fresh,
    play: Play,
    answer: Callable[[Request], Answer],
    *,
    socket: float | None = None,
    tools: tuple[Tool, ...] = (),
) -> None:
    """Let *play* have a conversation with an agent that has *tools*."""

    async def played(clock: FakeClock, leaping: Leaping) -> None:
        cores: list[Core] = []

        async def make(model: Any, *, clock: FakeClock, definition: dict[str, Any]) -> Core:
            known = {each.spec.name: each for each in tools}
            database = HeldDatabase(open_database(), leaping)
            core = Core(
                database,
                providers={model.name: model},
                tools=known,
                default_model=model.name,
                clock=clock,
                channels=CHANNELS,
            )
            cores.append(core)
            await core.start()
            core._segments.pressure.stop()  # that the machine is busy with tests is no subject of theirs
            await core.agents.create(Definition(name="assistant", instructions="", tools=tuple(known), **definition))
            return core

        with fresh() as open_database:
            try:
                async with rigged(make, answer=answer, socket=socket, clock=clock, shown=True) as rig:
                    await play(rig)
            finally:
                for core in cores:
                    await core.stop()

    leap(played)


def spoken(pieces: Sequence[str], every: float) -> Answer:
    """Say *pieces*, with *every* seconds after each."""
    return [item for piece in pieces for item in (say(piece), lasting(every))]


def is_done(team: Team, channel: str, root: str, n: int = 1) -> bool:
    """Return whether a thread has *n* answers or more, and nothing is open there."""
    answers, session = team.answers(channel, root), team.session(channel, root)
    is_quiet = session is not None and session.status == "active"
    return is_quiet and len(answers) >= n and not any(each.streaming for each in answers)


async def done(rig: Rig, team: Team, root: str, n: int = 1) -> Sequence[VisibleMessage]:
    """Return the answers of a thread once that is so."""
    await rig.stand_in.until(lambda: is_done(team, "CGENERAL", root, n), timeout=PATIENCE)
    return team.answers("CGENERAL", root)
