"""Health routes for load balancers and supervisors: liveness and readiness."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.api.bodies.wire import Health, answer
from app.api.problems import answers, problem
from app.serving.ready import Ready, Starting

router = APIRouter(tags=["health"])


@router.get("/healthz", responses=answers(Health))
async def healthz() -> Response:
    """Answer that the process is alive."""
    return answer(Health("ok"))


@router.get("/readyz", responses=answers(Health, 503))
async def readyz(request: Request) -> Response:
    """Answer whether requests can be served now."""
    ready: Ready | Starting = request.app.state.ready
    fault = await ready.fault()
    if fault is not None:
        return problem(503, fault, headers={"Retry-After": "1"})
    return answer(Health("ok", await ready.warning()))
