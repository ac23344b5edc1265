"""The routes of the web channel: visitors' tokens, the widget's scripts of all versions, and the demo page."""

import base64
import hashlib
import html
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints
from pydantic import Field as pydantic_Field
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    UniqueConstraint,
    delete,
    func,
    select,
    update,
)
from sqlmodel import Field, SQLModel
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from agent_core.clock import Clock, SystemClock
from agent_core.core import Core
from agent_core.errors import Forbidden, RateLimited
from agent_core.ids import new_id
from agent_core.messages import Actor
from agent_core.objects import AgentObject
from channels.spec import PREFERRED, ChannelSpec, Records
from channels.text import visible
from channels.web.demo import (
    PAGE,
    TOKEN,
    DemoPage,
    Door,
    OfferedAgent,
    Unauthorized,
    address,
    choose,
    fill,
    states_address,
)
from channels.web.identity import COOKIE_SECONDS, Principal, Token, TokenSigner, fault_of_id, fault_of_name
from channels.web.settings import NAME as CHANNEL
from channels.web.settings import SETTINGS, settings_of

# SQLModel types `__tablename__` as a declared_attr, though it takes a string:
# pyright: reportAssignmentType=false


Key = BigInteger().with_variant(Integer, "sqlite")


class WidgetFileRow(SQLModel, table=True):
    """A script of the widget's version *build*, as a server of this database has given it out.

    *digest* is the SHA-256 of *content* as URL-safe base64; *served_at* is when a server last started with the build,
    in milliseconds.
    """

    __tablename__ = "widget_file"
    __table_args__ = (UniqueConstraint("build", "name"), Index("ix_widget_file_name", "name", "digest"))

    key: int = Field(default=None, sa_column=Column(Key, primary_key=True, autoincrement=True))
    build: str = Field(sa_column=Column(String(40), nullable=False))
    name: str = Field(sa_column=Column(String(60), nullable=False))
    digest: str = Field(sa_column=Column(String(44), nullable=False))
    content: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    served_at: int = Field(sa_column=Column(BigInteger, nullable=False))


KEPT = 20
"""Builds that are kept, by when a server last started with them."""
_HELD = 32
"""Scripts that are held in memory, of at most some 100 kB each."""
_FILE: Table = vars(WidgetFileRow)["__table__"]


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of *content*, by whose beginning an address names a chunk."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()


class WidgetVersions:
    """What was given out, in *records*."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records, self._clock = records, clock
        self._held: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    async def keep(self, build: str, files: Mapping[str, bytes]) -> None:
        """Keep the *files* of *build*, by name, and remove what is older than the last `KEPT` builds.

        Any number of processes may do so at once.
        """
        now = self._clock.now()
        await self._records.write(lambda connection: _keep(connection, build, files, now))

    async def find(self, build: str, name: str) -> bytes | None:
        """Return the script *name* of *build*; None for one that is not kept."""
        query = select(_FILE.c.content).where(_FILE.c.build == build, _FILE.c.name == name)
        return await self._read((build, name), query)

    async def find_chunk(self, name: str, version: str) -> bytes | None:
        """Return the script *name* whose digest begins with *version*; None for one that is not kept."""
        begins = _FILE.c.digest.startswith(version, autoescape=True)
        return await self._read((version, name), select(_FILE.c.content).where(_FILE.c.name == name, begins).limit(1))

    async def _read(self, key: tuple[str, str], query: Any) -> bytes | None:
        if (held := self._held.get(key)) is not None:
            self._held.move_to_end(key)
            return held
        content = await self._records.read(lambda connection: connection.execute(query).scalar())
        if content is not None:
            self._held[key] = content
            while len(self._held) > _HELD:
                self._held.popitem(last=False)
        return content


def _keep(connection: Connection, build: str, files: Mapping[str, bytes], now: int) -> None:
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - three megabytes that SQLite does without
    else:
        from sqlalchemy.dialects.sqlite import insert  # noqa: PLC0415 - as above
    seen = connection.execute(update(_FILE).where(_FILE.c.build == build).values(served_at=now)).rowcount
    if seen < len(files):
        rows = [
            {"build": build, "name": name, "digest": digest_of(content), "content": content, "served_at": now}
            for name, content in sorted(files.items())
        ]
        connection.execute(insert(_FILE).on_conflict_do_nothing(), rows)
    latest = func.max(_FILE.c.served_at).desc()
    older = select(_FILE.c.build).group_by(_FILE.c.build).order_by(latest, _FILE.c.build).offset(KEPT).limit(1000)
    connection.execute(delete(_FILE).where(_FILE.c.build.in_(older.subquery().select())))


STATIC = Path(__file__).parent / "static"
MANIFEST = STATIC / "widget.json"
COOKIE = "parley_visitor"
VERSION_LENGTH = 16
"""Characters of the hash in a chunk's address; `widget/src/lazy.ts` computes the same."""
VERSION, BUILD, NAME = re.compile(r"[\w-]{16}"), re.compile(r"[0-9a-f]{12}"), re.compile(r"[a-z-]{1,50}")
# Scripts are public: a page of a site that may not call gets one that says so, and not a dead one.
SCRIPT_HEADERS = {"X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "*"}
PARTS = {
    **dict.fromkeys(("demo.css", "gallery.css"), "text/css"),
    **dict.fromkeys(("demo.js", "gallery.js", "recorded.js", "states.js"), "text/javascript"),
}
"""The scripts and style sheets of the demo pages, and what kind each is of."""
DAY = 24 * 3600
MAX_CONTEXT = 4_000
"""Bytes of JSON: sealed and signed they are 7,200 characters, and proxies take a header of 8,000."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def _id(id: str) -> str:
    if (fault := fault_of_id(id)) is not None:
        raise ValueError(fault)
    return id


def _name(name: str) -> str:
    if (fault := fault_of_name(name)) is not None:
        raise ValueError(fault)
    return name


VisitorId = Annotated[Name, AfterValidator(_id)]
VisitorName = Annotated[Name, AfterValidator(_name)]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types parley-chat"
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


def _context(context: dict[str, Any]) -> dict[str, Any]:
    if len(msgspec.json.encode(context)) > MAX_CONTEXT:
        raise ValueError(f"at most {MAX_CONTEXT:,} bytes of JSON: a token has to fit into a header.")
    return context


class TokenBody(BaseModel):
    """What a visitor's token is asked for; *ttl* is seconds, *tool_context* what the tools of their runs are given."""

    model_config = ConfigDict(extra="forbid", strict=True)
    actor: VisitorId | VisitorActor
    agent: Name
    ttl: int = pydantic_Field(3600, ge=1, le=DAY)
    tool_context: Annotated[dict[str, Any], AfterValidator(_context)] | None = None


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo page: what it says about an agent's model (None: the default one), who sees it, and what is broken.

    *problems* returns what could not be loaded, a sentence each; None where nothing is loaded while the server runs.
    *tool_context* is what tools are given of who asks there.
    """

    notice: Callable[[str | None], str]
    door: Door
    problems: Callable[[], Sequence[str]] | None = None
    tool_context: Mapping[str, Any] | None = field(default=None, repr=False)

    def offered(self, agent: AgentObject) -> OfferedAgent:
        """Return *agent* as the page offers it."""
        made = agent.definition
        notice, has_title = self.notice(made.controls.model or made.model), settings_of(made).title is not None
        return OfferedAgent(agent.id, made.name, notice, agent.source == "file", has_title)

    def broken(self) -> list[str]:
        """Return what could not be loaded, as it may be shown."""
        return [visible(each) for each in self.problems()] if self.problems else []


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
        token = tokens.visitor(
            actor, agent=agent.id, seconds=body.ttl, made_by=principal.key, tool_context=body.tool_context
        )
        return token_answer(token, 201)

    return router


def script_router(versions: WidgetVersions | None = None) -> APIRouter:
    """Return the routes of the widget's script and of the chunks that it loads; each with a version, and without.

    *versions* have those of builds that were given out before; None: only the present one is there.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/widget/{name}.js")
    async def script(
        name: str, v: Annotated[str | None, Query()] = None, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        """Return a script of the widget; *v* names the version of it that another was built with, and no other."""
        content = _present(name)
        if v is None:
            return answer_of(content, if_none_match)
        if content is None or v != digest_of(content)[:VERSION_LENGTH]:
            is_valid = VERSION.fullmatch(v) and NAME.fullmatch(name)
            content = await versions.find_chunk(f"{name}.js", v) if versions and is_valid else None
        return answer_of(content, if_none_match, keep=True)

    @router.get("/widget/{build}/{name}.js")
    async def pinned(
        build: str,
        name: str,
        _: Annotated[str | None, Query(alias="v", max_length=VERSION_LENGTH)] = None,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Return a script of the version *build*, which never changes; a chunk has a query `v` besides."""
        if build == widget().build:
            content = _present(name)
        elif versions and BUILD.fullmatch(build) and NAME.fullmatch(name):
            content = await versions.find(build, f"{name}.js")
        else:
            content = None
        return answer_of(content, if_none_match, keep=True)

    return router


def _present(name: str) -> bytes | None:
    """Return the script *name* of this installation's widget; None where it has none of the name."""
    return (STATIC / f"{name}.js").read_bytes() if f"{name}.js" in widget().files else None


def demo_router(
    core: Core, tokens: TokenSigner, demo: Demo, *, holds: Callable[[Principal], bool], described: Answers
) -> APIRouter:
    """Return the demo page, its tokens, and `/`, which leads to it, for those whom its door lets by.

    *holds* returns whether what a cookie says still holds: a visitor may have been revoked.
    """
    router = APIRouter()
    router.include_router(_home(demo))
    router.include_router(_page(core, demo))
    router.include_router(_demo_token(core, tokens, demo, holds, described))
    return router


def _home(demo: Demo) -> APIRouter:
    """Return the route of `/`, where others than those whom the door lets by find nothing."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def home(request: Request) -> Response:
        """Lead to the demo page."""
        try:
            await demo.door(request)
        except (Forbidden, RateLimited, Unauthorized):
            raise HTTPException(404) from None
        return RedirectResponse(PAGE, 307, {"Cache-Control": "no-store"})

    return router


def _page(core: Core, demo: Demo) -> APIRouter:
    router = APIRouter(include_in_schema=False, dependencies=[Depends(demo.door)])

    @router.get(PAGE)
    async def show_page(agent: str | None = None, show: str | None = None) -> Response:
        """Return the demo page, with the agent that is asked for, or with `show=states` the gallery."""
        agents = await _offered(core, demo)
        if show == "states":
            return Response(_gallery(choose(agents, (agent or "")[:200] or None)), 200, PAGE_HEADERS, "text/html")
        page = DemoPage(agents, (agent or "")[:200] or None, demo.broken(), demo.problems is not None)
        text = page.document((STATIC / "demo.html").read_text(encoding="utf-8"))
        return Response(text, 404 if page.agents and page.shown is None else 200, PAGE_HEADERS, "text/html")

    @router.get(PAGE + "/{name}.{kind}")
    async def part(name: str, kind: str) -> Response:
        """Return a script or a style sheet of the pages."""
        if f"{name}.{kind}" not in PARTS:
            raise HTTPException(404)
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
        return Response((STATIC / f"{name}.{kind}").read_bytes(), 200, headers, PARTS[f"{name}.{kind}"])

    @router.get(f"{PAGE}/status")
    async def status() -> Response:
        """Return the agents, and what could not be loaded, for a page that is open."""
        offered = await _offered(core, demo)
        agents = [{"name": each.name, "notice": each.notice, "heading": each.heading} for each in offered]
        body = msgspec.json.encode({"agents": agents, "problems": demo.broken()})
        return Response(body, 200, {"Cache-Control": "no-store"}, "application/json")

    return router


def _gallery(agent: OfferedAgent | None) -> str:
    """Return the page of states, theme and snippet, whose snippet embeds *agent*."""
    built = widget()
    filled = {
        "build": built.build,
        "integrity": built.files["parley-chat.js"].integrity,
        "agent": agent.name if agent else PREFERRED,
        "page": address(PAGE, agent.name) if agent else PAGE,
        "states": states_address(agent),
    }
    return fill((STATIC / "gallery.html").read_text(encoding="utf-8"), {k: html.escape(v) for k, v in filled.items()})


def _demo_token(
    core: Core, tokens: TokenSigner, demo: Demo, holds: Callable[[Principal], bool], described: Answers
) -> APIRouter:
    router = APIRouter(tags=["web"], dependencies=[Depends(demo.door)])

    @router.get(TOKEN, responses=described.demo)
    async def demo_token(request: Request, agent: Annotated[Name | None, Query()] = None) -> Response:
        """Make a token for the person at the demo page, who talks to the agent; a cookie keeps them the same visitor.

        Without an agent it is for the one that the page shows first.
        """
        cookie = tokens.read_cookie(request.cookies.get(COOKIE, ""))
        visitor = cookie.actor.id if cookie is not None and holds(cookie) else new_id("visitor")
        first = choose(await _offered(core, demo), None) if agent is None else None
        chosen = await core.agents.get(agent or (first.id if first else PREFERRED))
        person, tool_context = Actor(id=visitor, kind="visitor"), demo.tool_context
        answer = token_answer(tokens.visitor(person, agent=chosen.id, tool_context=tool_context))
        text = tokens.cookie(visitor).text
        answer.set_cookie(COOKIE, text, max_age=COOKIE_SECONDS, path=PAGE, httponly=True, samesite="strict")
        return answer

    return router


async def _offered(core: Core, demo: Demo) -> list[OfferedAgent]:
    return sorted((demo.offered(agent) for agent in await core.agents.all()), key=lambda each: each.name)


class WidgetFile(msgspec.Struct, frozen=True):
    """One file of the widget: what a page writes as its `integrity`, and its size in bytes."""

    integrity: str
    bytes: int


class Widget(msgspec.Struct, frozen=True):
    """The widget as it was built: its version, and its scripts by name."""

    build: str
    files: dict[str, WidgetFile]


@cache
def widget() -> Widget:
    """Return the widget of this installation, as its build described it."""
    return msgspec.json.decode(MANIFEST.read_bytes(), type=Widget)


def widget_files() -> dict[str, bytes]:
    """Return the bytes of each script of this installation's widget, by name."""
    return {name: (STATIC / name).read_bytes() for name in widget().files}


def answer_of(content: bytes | None, if_none_match: str | None = None, *, keep: bool = False) -> Response:
    """Return *content*, a script that pages of any site may load, or 304 to those who have it.

    With *keep* its address never means anything else, and browsers ask once. Raises `HTTPException` 404 for None.
    """
    if content is None:
        raise HTTPException(404)
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    caching = "public, max-age=31536000, immutable" if keep else "no-cache"
    headers = {**SCRIPT_HEADERS, "ETag": tag, "Cache-Control": caching}
    if if_none_match and tag in {seen.strip().removeprefix("W/") for seen in if_none_match.split(",")}:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, "text/javascript")


def token_answer(token: Token, status: int = 200) -> Response:
    """Return *token* as an answer that is not cached."""
    ends = datetime.fromtimestamp(token.expires, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    body = msgspec.json.encode({"token": token.text, "expires_at": ends, "id": token.id})
    return Response(body, status, {"Cache-Control": "no-store"}, "application/json")


@asynccontextmanager
async def serve(_core: Core, records: Records, _settings: object, *, socket: bool) -> "AsyncGenerator[APIRouter]":  # noqa: ARG001
    """Serve the scripts of the widget, and keep them for pages that pin this version."""
    versions = WidgetVersions(records, SystemClock())
    await versions.keep(widget().build, widget_files())
    yield script_router(versions)


WEB: ChannelSpec[object] = ChannelSpec(
    name=CHANNEL, address=re.compile(r"web:(?P<id>.+)"), settings=SETTINGS, serve=serve
)
