"""Replies: people answer in a conversation in the agent's place."""

from agent_core import events as e
from agent_core.ids import new_id
from agent_core.messages import Actor, Text
from agent_core.objects import MessageObject
from agent_core.store.changes import Also
from agent_core.store.reading import message_object
from agent_core.store.store import Store


class OperatorReplies:
    """What operators say to users, as people."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def give(
        self, session: str, text: str, *, by: Actor, key: str | None = None, also: Also | None = None
    ) -> MessageObject:
        """Say *text* to the user of *session* as *by*, and return the message; the same *key* says it once.

        It is an answer that no run made: whether one is at work or not, none starts, stops or waits for it. The model
        reads of it with its next step. *also* is committed together with it. Raises `NotFound`, `SessionClosed`,
        `IdempotencyMismatch`.
        """
        message = e.MessageCompleted(
            message=new_id("msg"), role="assistant", parts=(Text(text),), stop="done", actor=by
        )
        done = await self._store.reply(session, message, key=key, also=also)
        assert done.reply is not None
        return message_object(done.reply)
