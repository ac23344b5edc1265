"""Routes of runs and approvals."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, cast

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request
from msgspec.structs import replace
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response, StreamingResponse

from agent_core.agents import Controls
from agent_core.channels import Inbound
from agent_core.core import Core
from agent_core.errors import AlreadyDecided, Forbidden, NotAnApprover, NotFound
from agent_core.messages import Actor, File
from agent_core.objects import ENDED, ApprovalObject, ApprovalStatus, AuditEntry, Decision, Page, RunObject, RunStatus
from agent_core.quotas import Origin
from agent_core.runtime.approvals import outcome
from agent_core.store.approvals import Owner
from app.api.body import BodyRoute
from app.api.deps import (
    MAX_SEQ,
    NAMED,
    PERSONS,
    After,
    Caller,
    Cursor,
    Deciding,
    Limit,
    Name,
    Operator,
    OwnRun,
    Show,
    Wired,
    decider,
    may_decide,
    origin_of,
    owns,
    seat_of,
    sender,
)
from app.api.problems import answers, problem, unauthorized
from app.api.requests import DecisionBody, FeedbackBody, OutputsBody, RunBody, actor_of
from app.api.routes.sessions import parts_of
from app.api.sse import SSE, disconnected, open_stream
from app.api.wire import (
    Approval,
    AuditLine,
    Feedback,
    Run,
    RunTree,
    answer,
    approval_wire,
    copied,
    page,
    run_wire,
)
from app.serving.readers import Seat
from channels.web.identity import Principal
from channels.web.visible import ShowTools

# ruff: noqa: FAST003 - the path's `id` is taken by the dependency that finds what it names


class ApprovalId(StringConvertor):
    """An approval's id in a path: anything but `audit`, which has a route of its own."""

    regex = "(?!audit$)[^/]+"


register_url_convertor("approval", ApprovalId())
approvals_router = APIRouter(prefix="/v1/approvals", tags=["approvals"], route_class=BodyRoute)
NDJSON = "application/x-ndjson"
PAGE = 500


async def own_approval(id: str, wired: Wired, principal: Caller) -> ApprovalObject:
    """Return the approval *id*; to a visitor only one of the visitor's own sessions."""
    approval = await wired.core.approvals.get(id)
    if principal.visitor and not owns(principal, await wired.core.session(approval.session)):
        raise NotFound("approval", id)
    return approval


OwnApproval = Annotated[ApprovalObject, Depends(own_approval)]


@approvals_router.get("", responses=answers(Page[Approval], 400, 401, 403, 404, 422))
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


@approvals_router.get("/audit", response_class=Response, responses=answers(AuditLine, 400, 401, 403, 422, media=NDJSON))
async def read_audit(
    wired: Wired,
    _: Operator,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ)] = 0,
    approval: Name | None = None,
) -> Response:
    """Read the record of approvals after the line `after`, as lines of JSON."""
    first = await wired.core.approvals.audit(after=after, limit=PAGE, approval=approval)
    return StreamingResponse(_lines(wired.core, first, approval), media_type=NDJSON)


@approvals_router.get("/{id:approval}", responses=answers(Approval, 401, 403, 404, 422))
async def get_approval(principal: Caller, show: Show, approval: OwnApproval) -> Response:
    """Return an approval."""
    if not _is_shown(approval, principal, show):
        raise NotFound("approval", approval.id)
    return answer(_wire(approval, principal, show))


@approvals_router.post("/{id:approval}", responses=answers(Approval, 400, 401, 403, 404, 409, 413, 422))
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
        yield b"".join(msgspec.json.encode(copied(entry, AuditLine)) + b"\n" for entry in batch)
        more = len(batch) == PAGE
        batch = await core.approvals.audit(after=batch[-1].seq, limit=PAGE, approval=approval) if more else ()


# ruff: noqa: FAST003 - the path's `id` is taken by the dependencies that find what it names


router = APIRouter(tags=["runs"], route_class=BodyRoute)
AgentId = Annotated[str, Path(description="An agent's id or its name.", max_length=200)]
SETTLED = {*ENDED, "waiting", "requires_action"}
LEFT = "the reader left"
Stopping = Callable[[], Awaitable[RunObject]]
STARTED = {
    **answers(Run, 400, 401, 403, 404, 409, 413, 422, 429),
    202: {**answers(Run)[200], "description": "Accepted"},
}
STARTED[200]["content"] |= answers(SSE, media="text/event-stream")[200]["content"]


@router.post("/v1/agents/{id}/runs", responses=STARTED)
async def run_agent(request: Request, wired: Wired, principal: Operator, id: AgentId, body: RunBody) -> Response:
    """Run an agent: wait for its end, stream its events, or let it work in the background."""
    core, actor = wired.core, await _actor(body, principal.actor, wired.core)
    files = await parts_of(wired, principal, body.files or (), body.session)
    receipt = await core.run_agent(id, _inbound(body, files, actor, sender(principal, actor)), session=body.session)
    stopping = _stopping(core, receipt.run, actor) if body.on_disconnect == "cancel" else None
    match body.mode:
        case "background":
            return answer(run_wire(await core.run(receipt.run)), 202)
        case "stream":
            return await open_stream(
                core.follow_answer(receipt),
                show=None,
                readers=await seat_of(request, receipt.session),
                headers={"Parley-Run": receipt.run, "Parley-Session": receipt.session},
                gone=stopping,
            )
        case "wait":
            seat = await seat_of(request, receipt.session)
            run = await _settled(core, seat, receipt.run, body.timeout, request, stopping)
            if not wired.credentials.holds(principal):
                return unauthorized()
            return answer(run_wire(run), 200 if run.status in SETTLED else 202)


@router.get("/v1/runs", responses=answers(Page[Run], 400, 401, 403, 404, 422))
async def list_runs(
    wired: Wired,
    _: Operator,
    limit: Limit,
    *,
    agent: Name | None = None,
    session: Name | None = None,
    status: RunStatus | None = None,
    cursor: Cursor = None,
) -> Response:
    """List runs, the latest first."""
    if agent is not None:
        agent = (await wired.core.agents.get(agent)).id
    listed = await wired.core.runs(agent=agent, session=session, status=status, limit=limit, cursor=cursor)
    return page(listed, run_wire)


@router.get("/v1/runs/{id}", responses=answers(Run, 401, 403, 404, 422))
async def get_run(wired: Wired, _: Operator, id: str) -> Response:
    """Return a run."""
    return answer(run_wire(await wired.core.run(id)))


@router.get(
    "/v1/runs/{id}/events",
    status_code=200,
    response_class=Response,
    responses=answers(SSE, 400, 401, 403, 404, 422, 429, media="text/event-stream"),
)
async def run_events(request: Request, wired: Wired, run: OwnRun, show: Show, mine: Deciding, after: After) -> Response:
    """Follow a run and its descendants until it ends or waits, as server-sent events."""
    return await open_stream(
        wired.core.follow_run(run.id, after=after),
        show=show,
        readers=await seat_of(request, run.session),
        mine=mine,
        headers={"Parley-Run": run.id, "Parley-Session": run.session},
    )


@router.get("/v1/runs/{id}/tree", responses=answers(RunTree, 401, 403, 404, 422))
async def get_tree(wired: Wired, _: Operator, id: str) -> Response:
    """Return a run and its descendants."""
    return answer({"items": [run_wire(run) for run in await wired.core.tree(id)]})


@router.post(
    "/v1/runs/{id}/cancel",
    status_code=202,
    responses={
        **answers(Run, 400, 401, 403, 404, 413, 422, status=202),
        200: {**answers(Run)[200], "description": "It had ended already"},
    },
)
async def cancel_run(wired: Wired, principal: Caller, run: OwnRun, show: Show) -> Response:
    """Stop a run; what it said so far is kept."""
    if run.status in ENDED:
        return answer(run_wire(run, show))
    return answer(run_wire(await wired.core.cancel(run.id, by=principal.actor), show), 202)


@router.post("/v1/runs/{id}/tool-outputs", responses=answers(Run, 400, 401, 403, 404, 409, 413, 422))
async def take_outputs(wired: Wired, principal: Caller, run: OwnRun, show: Show, body: OutputsBody) -> Response:
    """Take the outputs of calls that the client executes; the run continues once none is missing."""
    changes = body.changes()
    if principal.visitor and changes is not None:
        raise Forbidden("Controls are the operator's: a visitor sends `outputs` alone.")
    outputs = [output.value() for output in body.outputs]
    return answer(run_wire(await wired.core.submit(run.id, outputs, changes), show))


@router.post(
    "/v1/runs/{id}/feedback",
    status_code=201,
    responses=answers(Feedback, 400, 401, 403, 404, 413, 422, 429, status=201),
)
async def give_feedback(request: Request, wired: Wired, principal: Caller, run: OwnRun, body: FeedbackBody) -> Response:
    """Rate a run; a person's second rating replaces the first."""
    actor = principal.actor
    if body.actor is not None:
        named = actor_of(body.actor)
        if principal.visitor and named.id != actor.id:
            raise Forbidden(f"`actor`: {NAMED}")
        actor = actor if principal.visitor else named
    feedback = await wired.core.feedback(
        run.id, by=actor, rating=body.rating, comment=body.comment, origin=origin_of(request)
    )
    return answer(copied(feedback, Feedback), 201)


def _inbound(body: RunBody, files: tuple[File, ...], actor: Actor, via: Actor | None) -> Inbound:
    return Inbound(
        parts=(*body.question, *files),
        actor=actor,
        via=via,
        overlap=body.overlap,
        key=body.idempotency_key,
        digest=body.digest() if body.idempotency_key else b"",
        key_scope="agent",
        history=body.history,
        instructions=body.instructions,
        controls=body.controls.value() if body.controls else Controls(),
        origin=Origin(is_operator=True),  # the route is the operators'
    )


async def _actor(body: RunBody, caller: Actor, core: Core) -> Actor:
    """Return the actor that the body names, else the session's, else the caller."""
    if body.actor is not None:
        return actor_of(body.actor)
    return caller if body.session is None else await core.opener(body.session)


def _stopping(core: Core, run: str, actor: Actor) -> Stopping:
    """Return a function that cancels a run because its only reader disconnected."""
    return partial(core.cancel, run, by=actor, reason=LEFT)


async def _settled(
    core: Core, seat: Seat, run: str, timeout: float, request: Request, stopping: Stopping | None
) -> RunObject:
    """Return the run when it ends or waits, after *timeout* seconds, or as it is when the server stops."""
    work = asyncio.create_task(core.settled(run, timeout=timeout))
    left = asyncio.create_task(disconnected(request.receive)) if stopping else None
    try:
        with seat.holding(work):
            await asyncio.wait({work, left} if left else {work}, return_when=asyncio.FIRST_COMPLETED)
            if stopping and not work.done():
                return await stopping()
    finally:
        if left:
            left.cancel()
    return await core.run(run) if work.cancelled() else work.result()
