"""Deciding over HTTP: in whose name a caller votes, and which approvals a visitor may decide."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import structlog
from fastapi import Depends
from msgspec.structs import replace

from agent_core import (
    Actor,
    ApprovalDecided,
    ApprovalRequested,
    ApprovalVoted,
    Core,
    Decider,
    Event,
    Forbidden,
    NotAnApprover,
    NotFound,
    Unavailable,
    may_respond,
)
from app.api.deps import NAMED, PERSONS, Caller, Wired
from channels.web.identity import ACT_AS, OPERATOR, Principal
from channels.web.visible import ASKING, ShowTools

_log = structlog.get_logger("parley.approvals")


def decider(principal: Principal, asker: Actor | None, named: Actor | None = None) -> Decider:
    """Return the decider of what *asker* wants: a visitor, an operator, or a named person; raises `Forbidden`.

    A person named by an operator counts as present, and not as an operator.
    """
    if principal.via is not None:
        raise Forbidden(
            f"This token was made, or the key that signed it was registered, with a key without the scope `{ACT_AS}`, "
            "or with one that was revoked since; with it no one decides."
        )
    if principal.visitor:
        if named is not None and named.id != principal.actor.id:
            raise Forbidden(f"`actor`: {NAMED}")
        return Decider(actor=_person(principal.actor, asker), is_present=True)
    if named is None:
        return Decider(actor=principal.actor, is_operator=True)
    if ACT_AS not in principal.scopes:
        raise Forbidden(f"`actor`: to decide for others takes a key with the scope `{ACT_AS}`; leave it out.")
    if named.id == OPERATOR.id or named.id.startswith(f"{OPERATOR.id}:"):
        raise NotAnApprover("`actor`: an operator decides with a key of their own; leave it out.")
    return Decider(actor=_person(named, asker), is_present=True)


def may_decide(principal: Principal, responders: Sequence[str], asker: Actor | None, speakers: Sequence[Actor]) -> bool:
    """Return whether *principal*, in its own name, may vote on what *asker* and *speakers* caused."""
    return principal.via is None and may_respond(responders, asker, decider(principal, asker), speakers)


def _person(actor: Actor, asker: Actor | None) -> Actor:
    """Return *actor* as the kind of person that *asker* is, if they are one: a site's user is its visitor too."""
    if asker is None or asker.id != actor.id or not {asker.kind, actor.kind} <= PERSONS:
        return actor
    return replace(actor, kind=asker.kind, name=actor.name or asker.name)


class Mine:
    """The approvals in a visitor's stream: which ones the visitor may decide, and that they were shown."""

    def __init__(self, core: Core, visitor: Principal) -> None:
        self._core, self._visitor = core, visitor
        self._known: dict[str, bool] = {}

    @property
    def own(self) -> str:
        """The visitor's id."""
        return self._visitor.actor.id

    async def learn(self, events: Iterable[Event]) -> None:
        """Find out about the approvals that *events* are about."""
        for event in events:
            match event.body if event.type in ASKING else None:
                case ApprovalRequested(approval=id) as asked:
                    self._known[id] = may_decide(self._visitor, asked.responders, asked.by, asked.speakers)
                case ApprovalVoted(approval=id) | ApprovalDecided(approval=id) if id not in self._known:
                    self._known[id] = await self._find(id)
                case _:
                    continue

    def decides(self, event: Event) -> bool:
        """Return whether the visitor may decide the approval that *event* is about, after `learn`."""
        match event.body if event.type in ASKING else None:
            case ApprovalRequested(approval=id) | ApprovalVoted(approval=id) | ApprovalDecided(approval=id):
                return self._known.get(id, False)
            case _:
                return False

    async def record(self, events: Iterable[Event], show: ShowTools | None) -> None:
        """Put on record that the visitor is shown what the open questions in *events* are about, after `learn`.

        Without a database to write to it is only logged: it must not end what the visitor reads.
        """
        requests = [event for event in events if event.type == ApprovalRequested.type]
        shown = [event.body for event in requests if show == "full" or self.decides(event)]
        ids = [body.approval for body in shown if isinstance(body, ApprovalRequested)]
        if ids:
            try:
                await self._core.approvals.note_opened(ids, surface="web", by=self._visitor.actor)
            except Unavailable as error:
                _log.warning("approval.opened_unrecorded", approvals=ids, error=str(error))

    async def _find(self, id: str) -> bool:
        try:
            approval = await self._core.approvals.get(id)
        except NotFound:  # its session is being deleted
            return False
        return may_decide(self._visitor, approval.responders, approval.asker, approval.speakers)


async def mine_of(wired: Wired, principal: Caller) -> Mine | None:
    """Return the approvals that a visitor may decide; None for an operator."""
    return Mine(wired.core, principal) if principal.visitor else None


Deciding = Annotated[Mine | None, Depends(mine_of)]
