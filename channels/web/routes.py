"""What a browser loads: the demo page, its visitor's token, and the widget's script."""

import hashlib
import html
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Header, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import Response

from agent_core import Actor, Core, new_id
from channels.web.demo import Door
from channels.web.identity import COOKIE_SECONDS, Principal, Token, TokenSigner
from channels.web.visitor_ids import fault_of_id, fault_of_name

STATIC = Path(__file__).parent / "static"
COOKIE = "parley_visitor"
DAY = 24 * 3600
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def _id(given: str) -> str:
    if (fault := fault_of_id(given)) is not None:
        raise ValueError(fault)
    return given


def _name(given: str) -> str:
    if (fault := fault_of_name(given)) is not None:
        raise ValueError(fault)
    return given


VisitorId = Annotated[Name, AfterValidator(_id)]
VisitorName = Annotated[Name, AfterValidator(_name)]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class VisitorActor(BaseModel):
    """The person of a visitor's token, as the embedding site knows them."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: VisitorId
    kind: Literal["visitor"] = "visitor"
    name: VisitorName | None = None


class TokenBody(BaseModel):
    """What a visitor's token is asked for; *ttl* is seconds."""

    model_config = ConfigDict(extra="forbid", strict=True)
    actor: VisitorId | VisitorActor
    agent: Name
    ttl: int = Field(3600, ge=1, le=DAY)


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo page: which agent answers, what the page says about its model (None: the default one), who sees it."""

    agent: str
    notice: Callable[[str | None], str]
    door: Door


@dataclass(frozen=True, slots=True)
class Answers:
    """How the application describes the answers of these routes in OpenAPI."""

    token: dict[int | str, dict[str, Any]]
    demo: dict[int | str, dict[str, Any]]


def token_router(core: Core, tokens: TokenSigner, *, operator: Callable[..., Any], described: Answers) -> APIRouter:
    """Return the route by which an embedding site gets a visitor's token; *operator* lets only operators by."""
    router = APIRouter(tags=["web"])

    @router.post("/v1/web/visitor-tokens", status_code=201, responses=described.token)
    async def mint(principal: Annotated[Principal, Depends(operator)], body: TokenBody) -> Response:
        """Make a token for a visitor of a web page."""
        agent = await core.agents.get(body.agent)
        named = VisitorActor(id=body.actor) if isinstance(body.actor, str) else body.actor
        actor = Actor(id=named.id, kind="visitor", name=named.name)
        return token_answer(tokens.visitor(actor, agent=agent.id, seconds=body.ttl, made_by=principal.key), 201)

    return router


def script_router() -> APIRouter:
    """Return the route of the widget's script."""
    router = APIRouter(include_in_schema=False)

    @router.get("/widget/parley-chat.js")
    async def script(if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """Return the widget's bundle."""
        return script_answer((STATIC / "parley-chat.js").read_bytes(), if_none_match)

    return router


def script_answer(content: bytes, seen: str | None) -> Response:
    """Return a script, or that it is still the one that the caller has *seen*, by the header `If-None-Match`."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
    if seen and tag in {each.strip().removeprefix("W/") for each in seen.split(",")}:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, "text/javascript")


def demo_router(
    core: Core, tokens: TokenSigner, demo: Demo, *, holds: Callable[[Principal], bool], described: Answers
) -> APIRouter:
    """Return the demo page and its token, for those whom its door lets by.

    *holds* returns whether what a cookie says still holds: a visitor may have been revoked.
    """
    router = APIRouter(tags=["web"], dependencies=[Depends(demo.door)])

    @router.get("/widget-demo", include_in_schema=False)
    async def show_page() -> Response:
        """Return the demo page."""
        text = (STATIC / "demo.html").read_text(encoding="utf-8")
        made = (await core.agents.get(demo.agent)).definition
        filled = text.replace("{{notice}}", html.escape(demo.notice(made.controls.model or made.model)))
        return Response(filled, 200, PAGE_HEADERS, "text/html")

    @router.get("/widget-demo/token", responses=described.demo)
    async def demo_token(request: Request) -> Response:
        """Make a token for the person at the demo page; a cookie keeps them the same visitor."""
        known = tokens.read_cookie(request.cookies.get(COOKIE, ""))
        visitor = known.actor.id if known is not None and holds(known) else new_id("visitor")
        agent = await core.agents.get(demo.agent)
        answer = token_answer(tokens.visitor(Actor(id=visitor, kind="visitor"), agent=agent.id))
        answer.set_cookie(
            COOKIE,
            tokens.cookie(visitor).text,
            max_age=COOKIE_SECONDS,
            path="/widget-demo",
            httponly=True,
            samesite="strict",
        )
        return answer

    return router


def token_answer(token: Token, status: int = 200) -> Response:
    """Return *token* as an answer that is not cached."""
    ends = datetime.fromtimestamp(token.expires, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    body = msgspec.json.encode({"token": token.text, "expires_at": ends, "id": token.id})
    return Response(body, status, {"Cache-Control": "no-store"}, "application/json")
