"""Routes of approvals: list them, decide them, read their audit record."""

# ruff: noqa: FAST003 - the path's `id` is taken by the dependency that finds what it names

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, cast

import msgspec
from fastapi import APIRouter, Depends, Query
from msgspec.structs import replace
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response, StreamingResponse

from agent_core import (
    AlreadyDecided,
    ApprovalObject,
    ApprovalStatus,
    AuditEntry,
    Core,
    Decision,
    Forbidden,
    NotAnApprover,
    NotFound,
    Page,
)
from agent_core.runtime.approvals import outcome
from agent_core.store.approvals import Owner
from app.api.bodies.replies import DecisionBody
from app.api.bodies.requests import actor_of
from app.api.bodies.wire import Approval, AuditLine, answer, approval_wire, audit_line, page
from app.api.deciders import decider, may_decide
from app.api.deps import MAX_SEQ, PERSONS, Caller, Cursor, Limit, Name, Operator, Show, Wired, owns
from app.api.entrance.body import BodyRoute
from app.api.problems import answers, problem
from channels.web.identity import Principal
from channels.web.visible import ShowTools


class ApprovalId(StringConvertor):
    """An approval's id in a path: anything but `audit`, which has a route of its own."""

    regex = "(?!audit$)[^/]+"


register_url_convertor("approval", ApprovalId())
router = APIRouter(prefix="/v1/approvals", tags=["approvals"], route_class=BodyRoute)
NDJSON = "application/x-ndjson"
PAGE = 500


async def own_approval(id: str, wired: Wired, principal: Caller) -> ApprovalObject:
    """Return the approval *id*; to a visitor only one of the visitor's own sessions."""
    approval = await wired.core.approvals.get(id)
    if principal.visitor and not owns(principal, await wired.core.session(approval.session)):
        raise NotFound("approval", id)
    return approval


OwnApproval = Annotated[ApprovalObject, Depends(own_approval)]


@router.get("", responses=answers(Page[Approval], 400, 401, 403, 404, 422))
async def list_approvals(
    wired: Wired,
    principal: Caller,
    show: Show,
    limit: Limit,
    *,
    status: ApprovalStatus | None = None,
    session: Name | None = None,
    run: Name | None = None,
    cursor: Cursor = None,
) -> Response:
    """List approvals, the oldest first; those of a visitor's own sessions only."""
    owner = None if principal.agent is None else Owner(principal.actor.id, PERSONS, principal.agent)
    listed = await wired.core.approvals.list(
        status=status, session=session, run=run, owner=owner, limit=limit, cursor=cursor
    )
    seen = tuple(each for each in listed.items if _is_shown(each, principal, show))
    return page(Page(seen, listed.next_cursor), lambda approval: _wire(approval, principal, show))


@router.get("/audit", response_class=Response, responses=answers(AuditLine, 400, 401, 403, 422, media=NDJSON))
async def read_audit(
    wired: Wired,
    _: Operator,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0,
    approval: Name | None = None,
) -> Response:
    """Read the record of approvals after the line `after`, as lines of JSON."""
    first = await wired.core.approvals.audit(after=after, limit=PAGE, approval=approval)
    return StreamingResponse(_lines(wired.core, first, approval), media_type=NDJSON)


@router.get("/{id:approval}", responses=answers(Approval, 401, 403, 404, 422))
async def get_approval(principal: Caller, show: Show, approval: OwnApproval) -> Response:
    """Return an approval."""
    if not _is_shown(approval, principal, show):
        raise NotFound("approval", approval.id)
    return answer(_wire(approval, principal, show))


@router.post("/{id:approval}", responses=answers(Approval, 400, 401, 403, 404, 409, 413, 422))
async def decide(wired: Wired, principal: Caller, show: Show, approval: OwnApproval, body: DecisionBody) -> Response:
    """Approve or deny a call; the approval stays `open` until its quorum is reached."""
    if not _is_shown(approval, principal, show):
        raise NotFound("approval", approval.id)
    named = None if body.actor is None else actor_of(body.actor)
    if principal.visitor and "surface" in body.model_fields_set:
        raise Forbidden("`surface` is the operator's.")
    decision = Decision(
        approval=approval.id,
        by=decider(principal, approval.asker, named),
        approved=body.approved,
        surface="web" if principal.visitor else body.surface,
        reason=body.reason,
        arguments=body.arguments,
        remember=body.remember,
    )
    try:
        decided = await wired.core.approvals.decide(decision)
    except AlreadyDecided as late:
        decided = cast("ApprovalObject", late.approval)
        detail = str(late)
        if principal.visitor and decided.decided_by is not None and decided.decided_by.name is None:
            detail = outcome(replace(decided, decided_by=None))  # without a name there would be an id
        return problem(409, detail, code=late.code, approval=_wire(decided, principal, show))
    except NotAnApprover:
        if principal.visitor:  # only operators are shown the names of those who may
            raise NotAnApprover("You may not decide this; it was asked of someone else.") from None
        raise
    return answer(_wire(decided, principal, show))


def _is_shown(approval: ApprovalObject, principal: Principal, show: ShowTools | None) -> bool:
    """Return whether *principal* may see *approval*: of a hidden tool, only if it may decide."""
    if approval.session in principal.barred:
        return False
    return show != "none" or _may_decide(approval, principal)


def _may_decide(approval: ApprovalObject, principal: Principal) -> bool:
    return may_decide(principal, approval.responders, approval.asker, approval.speakers)


def _wire(approval: ApprovalObject, principal: Principal, show: ShowTools | None) -> Any:
    return approval_wire(approval, show, may_decide=_may_decide(approval, principal), own=principal.actor.id)


async def _lines(core: Core, batch: Sequence[AuditEntry], approval: str | None) -> AsyncIterator[bytes]:
    while batch:
        yield b"".join(msgspec.json.encode(audit_line(entry)) + b"\n" for entry in batch)
        more = len(batch) == PAGE
        batch = await core.approvals.audit(after=batch[-1].seq, limit=PAGE, approval=approval) if more else ()
