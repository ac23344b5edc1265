"""One's latest conversations, to continue one by its number or id."""

from datetime import datetime

from agent_core import Actor, SessionObject
from app.cli.chat.ports import Port, own_session
from app.cli.printing import short

RECENT = 20
"""How many conversations `/sessions` lists."""


class Recent:
    """The conversations that were last listed."""

    def __init__(self, port: Port, actor: Actor) -> None:
        self._port, self._actor = port, actor
        self._listed: list[SessionObject] = []

    async def lines(self) -> list[str]:
        """List the latest, each as a line."""
        self._listed = list((await self._port.sessions(actor=self._actor.id, limit=RECENT)).items)
        return [_described(each) for each in self._listed]

    async def named(self, wanted: str) -> SessionObject:
        """Return the conversation with this number of the list, from 1, or with this id; raise `Forbidden`."""
        if wanted.isdecimal() and 0 < int(wanted) <= len(self._listed):
            return self._listed[int(wanted) - 1]
        return await own_session(self._port, wanted, self._actor)


def numbered(lines: list[str]) -> str:
    """Return *lines* with the numbers by which one is continued."""
    listed = "\n".join(f"{n:>3}  {line}" for n, line in enumerate(lines, 1))
    return f"{listed}\n(/sessions NUMBER continues one)"


def _described(session: SessionObject) -> str:
    last = datetime.fromtimestamp(session.last_activity_at / 1000).astimezone()
    return f"{last:%Y-%m-%d %H:%M}  {short(session.title or '(no title yet)', 36)}  {session.id}"
