"""Routes for whoever watches the server: does it live, can it work."""

import asyncio

from fastapi import APIRouter
from starlette.responses import Response

from app.api.deps import Wired
from app.api.problems import answers, problem
from app.api.wire import Health, answer

PATIENCE = 5
router = APIRouter(tags=["health"])


@router.get("/healthz", responses=answers(Health))
async def healthz() -> Response:
    """Say that the process lives."""
    return answer(Health("ok"))


@router.get("/readyz", responses=answers(Health, 503))
async def readyz(wired: Wired) -> Response:
    """Say whether requests can be served now."""
    if wired.readers.closed:
        return problem(503, "The server is stopping.")
    if not wired.core.is_working:
        return problem(503, "Nobody looks after the runs; start the server again.")
    try:
        async with asyncio.timeout(PATIENCE):
            await wired.core.ping()
    except TimeoutError:
        return problem(503, f"The database did not answer within {PATIENCE} seconds.")
    return answer(Health("ok"))
