"""Routes of runs: start one and wait, stream or return at once; read it; cancel it."""

# ruff: noqa: FAST003 - the path's `id` is taken by the dependencies that find what it names

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from agent_core import Actor, Controls, Core, File, Forbidden, Inbound, Origin, Page, RunObject, RunStatus
from agent_core.objects import ENDED
from app.api.bodies.replies import OutputsBody
from app.api.bodies.requests import FeedbackBody, actor_of
from app.api.bodies.run_bodies import RunBody
from app.api.bodies.wire import Feedback, Run, RunTree, answer, feedback_wire, page, run_wire
from app.api.deciders import Deciding
from app.api.deps import (
    NAMED,
    After,
    Caller,
    Cursor,
    Limit,
    Name,
    Operator,
    OwnRun,
    Show,
    Wired,
    origin_of,
    seat_of,
    sender,
)
from app.api.entrance.body import BodyRoute
from app.api.problems import answers, unauthorized
from app.api.routes.uploads import parts_of
from app.api.sse import SSE, disconnected, open_stream
from app.serving.readers import Seat

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
    return answer(feedback_wire(feedback), 201)


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
