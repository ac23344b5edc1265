"""Routes of renders: what was shown, as picture, SVG, CSV or JSON, and previews."""

import asyncio
import re
from typing import Annotated, Any, Literal, TypeVar, cast

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from pydantic import StringConstraints
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from agent_core.charts.draw import DrawingFailed, DrawingUnavailable
from agent_core.charts.made import NewRender, check_declared, columns_of
from agent_core.charts.spec import checked
from agent_core.charts.text import MAX_CELLS, MAX_CSV_BYTES, csv_of, head_of
from agent_core.core import Core
from agent_core.errors import Fault, InvalidInput, NotFound
from agent_core.objects import RenderObject
from agent_core.runtime.services import ChartDrawer
from agent_core.store.listing import Wanted
from agent_core.tools.render import chart, table
from app.api.body import BodyRoute
from app.api.deps import INERT, PERSONS, SVG, Caller, Operator, Wired, file, file_name, known, tag_of
from app.api.problems import answers, problem
from app.api.wire import RenderAnswer, RequestBody, answer, copied
from app.channels import CHANNELS
from channels.spec import ChannelPreview, ShownRender

T = TypeVar("T")
MAX_TITLE = 200


class PreviewBody(RequestBody):
    """What a tool would show: the payload of a table is `{columns, rows}`, that of a chart `{spec}`."""

    kind: Literal["table", "chart"]
    title: Annotated[str, StringConstraints(min_length=1, max_length=MAX_TITLE)] | None = None
    payload: dict[str, Any]


def drafted(body: PreviewBody) -> ShownRender:
    """Return what *body* would show; raises `InvalidInput` with the path of what is wrong."""
    try:
        made = _table(body) if body.kind == "table" else chart(_required(body.payload, "spec", dict), title=body.title)
    except InvalidInput as error:
        first, *more = (_placed(fault) for fault in error.faults)
        raise InvalidInput(first.path, first.message, *more) from None
    return ShownRender("ren_preview", made.kind, made.payload, made.text, made.title)


async def check_drawn(render: ShownRender, drawer: ChartDrawer | None, owner: str) -> None:
    """Raise `InvalidInput` when *render* is a chart that the tool would refuse, as it cannot be drawn."""
    if drawer is None or render.kind != "chart" or "plain" in render.payload:
        return
    try:
        await drawer.check(render.payload["spec"], owner=owner)
    except DrawingUnavailable:  # the tool shows it then
        return
    except DrawingFailed as error:
        raise InvalidInput("payload.spec", str(error)) from None


def on_channel(name: str, render: ShownRender) -> ChannelPreview:
    """Return the form of *render* that the channel *name* is sent first; raises `InvalidInput` when it has none."""
    made = next((each.preview for each in CHANNELS if each.name == name), None)
    if made is None:
        raise InvalidInput("as", f"`{name}` has no form of its own; ask for `text`.")
    return made(render)


def csv_file(render: ShownRender) -> bytes:
    """Return the rows of *render*; raises `InvalidInput` when it has none."""
    data = csv_of(render.kind, render.payload)
    if data is None:
        raise InvalidInput("payload", "there are no rows in it, or more than a file may have; ask for `text`.")
    return data


def _table(body: PreviewBody) -> NewRender:
    columns = _required(body.payload, "columns", list)
    for place, column in enumerate(columns):
        if not isinstance(column, str | dict):
            raise InvalidInput(f"columns[{place}]", "must be a key, or an object such as `{key, label, format}`.")
    rows = _required(body.payload, "rows", list)
    if not columns:
        raise InvalidInput("columns", "declare them: name the keys of the rows that are shown.")
    made = table(rows, columns, title=body.title)
    check_declared(rows, columns_of(columns))
    return made


def _required(payload: dict[str, Any], name: str, kind: type[T]) -> T:
    value = payload.get(name)
    if not isinstance(value, kind):
        raise InvalidInput(name, f"must be {'a list' if kind is list else 'an object'}.")
    return value


def _placed(fault: Fault) -> Fault:
    """Return *fault* with its path in the body; one within a specification begins with `$`."""
    if fault.path.startswith("$"):
        return fault.within("payload.spec")
    return fault if fault.path == "title" else Fault(f"payload.{fault.path}", fault.message)


# ruff: noqa: FAST003 - the path's `id` is taken by the dependency that finds what it names


PNG, CSV, TEXT = "image/png", "text/csv; charset=utf-8", "text/plain; charset=utf-8"
_ID = re.compile(r"ren_[\w.-]{1,80}", re.ASCII)
_SAME = {304: {"description": "Not Modified"}}


class RenderId(StringConvertor):
    """A render's id in a path: anything but `preview`, which has a route of its own."""

    regex = "(?!preview$)[^/]+"


register_url_convertor("render", RenderId())
router = APIRouter(prefix="/v1/renders", tags=["renders"], route_class=BodyRoute)
Scale = Annotated[int, Query(ge=1, le=3)]
As = Annotated[Literal["png", "svg", "slack", "text", "csv"], Query(alias="as")]
Theme = Annotated[Literal["light", "dark"], Query()]


async def own_render(id: str, wired: Wired, principal: Caller) -> RenderObject:
    """Return the render *id*; to a visitor only one that the visitor's own sessions have shown."""
    if not _ID.fullmatch(id):
        raise NotFound("render", id)
    if not principal.visitor:
        return await wired.core.renders.get(id)
    own = Wanted(actor=principal.actor.id, kinds=PERSONS, agent=principal.agent)
    render = await wired.core.renders.get(id, own)
    if render.session in principal.barred:
        raise NotFound("render", id)
    return render


OwnRender = Annotated[RenderObject, Depends(own_render)]


@router.get("/{id}.png", response_class=Response, responses=answers("File", 401, 403, 404, 422, 429, media=PNG) | _SAME)
async def get_png(
    request: Request,
    wired: Wired,
    principal: Caller,
    render: OwnRender,
    scale: Scale = 2,
    theme: Theme = "light",
) -> Response:
    """Draw a chart as a picture, `scale` pixels per unit; other renders have none."""
    if (spec := _chart_in(render)) is None:
        return _no_picture(render)
    tag = tag_of(render, "png", scale, theme)
    if (same := known(request, tag)) is not None:
        return same
    with wired.drawings.turn(principal, request.scope):
        clean = await asyncio.to_thread(checked, spec)
        data = await _drawer(wired.core).png(clean, scale=scale, dark=theme == "dark", owner=render.session)
    return file(data, PNG, tag)


@router.get("/{id}.svg", response_class=Response, responses=answers("File", 401, 403, 404, 422, 429, media=SVG) | _SAME)
async def get_svg(
    request: Request, wired: Wired, principal: Caller, render: OwnRender, theme: Theme = "light"
) -> Response:
    """Draw a chart as SVG without a background, for a page of the `theme`'s colours; other renders have none."""
    if (spec := _chart_in(render)) is None:
        return _no_picture(render)
    tag = tag_of(render, "svg", theme)
    if (same := known(request, tag)) is not None:
        return same
    with wired.drawings.turn(principal, request.scope):
        clean = await asyncio.to_thread(checked, spec)
        data = await _drawer(wired.core).svg(clean, dark=theme == "dark", owner=render.session)
    return file(data, SVG, tag, attached=file_name(render.title, "svg"))


@router.get("/{id}.csv", response_class=Response, responses=answers("File", 401, 403, 404, 422, media=CSV) | _SAME)
async def get_csv(request: Request, render: OwnRender) -> Response:
    """Download the rows of a table, or the values of a chart, as CSV in UTF-8; other renders have none."""
    tag = tag_of(render, "csv")
    if (same := known(request, tag)) is not None:
        return same
    data = await asyncio.to_thread(csv_of, render.kind, render.payload)
    head = await asyncio.to_thread(head_of, render.kind, render.payload, render.title)
    if data is None:
        too_many = f"more than {MAX_CELLS:,} cells or {MAX_CSV_BYTES:,} bytes"
        return problem(404, f"`{render.id}` has no rows, or {too_many}; read its `.json`, or its `text`.")
    return file(data, CSV, tag, attached=file_name(head.heading, "csv"))


@router.get("/{id}.json", response_class=Response, responses=answers("Payload", 401, 403, 404, 422) | _SAME)
async def get_payload(request: Request, render: OwnRender) -> Response:
    """Return the payload of a render alone."""
    tag = tag_of(render, "json")
    return known(request, tag) or file(msgspec.json.encode(render.payload), "application/json", tag)


# After the files: an id may have any ending but theirs.
@router.get("/{id:render}", responses=answers(RenderAnswer, 401, 403, 404, 422))
async def get_render(render: OwnRender) -> Response:
    """Return a render."""
    return answer(copied(render, RenderAnswer))


_PREVIEWED = answers(ChannelPreview, 400, 401, 403, 413, 422)
_PREVIEWED[200]["content"] |= {
    media: {"schema": {"$ref": "#/components/schemas/File"}} for media in (PNG, SVG, CSV, TEXT)
}


@router.post("/preview", responses=_PREVIEWED)
async def preview(
    wired: Wired,
    operator: Operator,
    body: PreviewBody,
    form: As,
) -> Response:
    """Show what a tool would show, `as` a picture, Slack's blocks, text or CSV; nothing is kept."""
    render = await asyncio.to_thread(drafted, body)
    await check_drawn(render, wired.core.drawer, operator.actor.id)
    match form:
        case "png" if render.kind == "chart":
            data = await _drawer(wired.core).png(render.payload["spec"], owner=operator.actor.id)
            return Response(data, media_type=PNG)
        case "svg" if render.kind == "chart":
            data = await _drawer(wired.core).svg(render.payload["spec"], owner=operator.actor.id)
            return Response(data, media_type=SVG, headers=INERT)
        case "png" | "svg":
            raise InvalidInput("as", "a table has no picture; ask for `slack`, `text` or `csv`.")
        case "slack":
            return answer(await asyncio.to_thread(on_channel, form, render))
        case "text":
            return Response(render.plain, media_type=TEXT)
        case "csv":
            return Response(await asyncio.to_thread(csv_file, render), media_type=CSV)


def _chart_in(render: RenderObject) -> dict[str, Any] | None:
    spec = render.payload.get("spec")
    return cast("dict[str, Any]", spec) if render.kind == "chart" and isinstance(spec, dict) else None


def _no_picture(render: RenderObject) -> Response:
    return problem(404, f"`{render.id}` has no picture, as it holds no chart; read its `.csv`, or its `text`.")


def _drawer(core: Core) -> ChartDrawer:
    if core.drawer is None:
        raise DrawingUnavailable("This process draws no charts; read the render's `text` or `.csv`.")
    return core.drawer
