"""recipient: for whom a thread's streams are: Slack wants the person who asked, outside of direct messages."""

from channels.base import ConversationView
from channels.ledger import Ledger, OwnedPlace
from channels.slack.thread import Thread


class StreamRecipient:
    """Who asked for what a thread shows; *place* says who did when it was claimed, the ledger who does now."""

    def __init__(self, thread: Thread, ledger: Ledger, place: OwnedPlace) -> None:
        self._thread, self._ledger, self._place = thread, ledger, place
        self._resolved: str | None = None
        self._run: str | None = None

    def note(self, body: ConversationView) -> None:
        """Record the run that *body* shows; the first one is what the thread was claimed for."""
        self._run = next((run.id for run in reversed(body.runs) if run.status != "queued"), self._run)
        self._resolved = self._resolved or self._run

    async def ids(self) -> tuple[str | None, str | None]:
        """Return the user and the team for a stream that begins now; raises `LostPlace`.

        A run that begins while an earlier one is still shown, as while its picture is drawn, may be another person's.
        """
        if self._thread.is_dm:
            return None, None
        if self._run != self._resolved:
            self._resolved = self._run
            self._thread = Thread.read((await self._ledger.reload(self._place)).data)
        return self._thread.user, self._thread.user_team
