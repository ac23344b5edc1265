"""What a table or a chart would look like: checked as a tool's is, and shown nowhere."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import StringConstraints

from agent_core import DrawingFailed, DrawingUnavailable, InvalidInput
from agent_core.charts.made import NewRender, check_declared, columns_of
from agent_core.charts.text import csv_of
from agent_core.errors import Fault
from agent_core.runtime.services import ChartDrawer
from agent_core.tools.render import chart, table
from app.api.bodies.derived import RequestBody
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
