"""The JSON Schemas that Parley publishes: every frame of the event streams, and every object of the API."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from agent_core.events import FACTS, LIVE
from agent_core.objects import Page
from agent_core.runtime.access import Forgotten
from app.api import wire
from app.api.body import GUARDED, OPEN
from app.api.sse import SSE
from channels.spec import ChannelPreview
from channels.web.settings import AgentFace
from channels.web.visible import (
    APPROVAL_CONTENTS,
    APPROVAL_OPERATORS,
    ASKING,
    CONTENTS,
    OPERATORS,
    PART_CONTENTS,
    RUN_OPERATORS,
    SESSION_OPERATORS,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PUBLISHED = Path(__file__).parents[2] / "docs" / "events.schema.json"
IN_OPENAPI = "#/components/schemas/{name}"
IN_DEFS = "#/$defs/{name}"
OBJECTS = tuple(
    each
    for each in vars(wire).values()
    if each is not wire.AgentFields
    and isinstance(each, type)
    and issubclass(each, msgspec.Struct)
    and each.__module__ == wire.__name__
)
LISTED = ("Agent", "Approval", "Feedback", "Key", "McpServerAnswer", "Message", "OwnConversation", "Revoked", "Run")
LISTED += ("Secret", "Session", "SigningKeyAnswer", "Tool")
"""Objects that come in pages."""
WIRE = (*OBJECTS, *(Page[getattr(wire, name)] for name in LISTED), ChannelPreview, AgentFace, Forgotten)
FILES: dict[str, Any] = {
    "File": {"description": "The bytes of a file.", "type": "string", "format": "binary"},
    "Payload": {"description": "The payload of a render: what it is, its `kind` says.", "type": "object"},
}
# Fields that visitors do not get are not required: one schema fits both kinds of reader.
OPTIONAL: dict[str, tuple[str, ...]] = {
    "Approval": APPROVAL_CONTENTS,
    "Run": RUN_OPERATORS,
    "Session": SESSION_OPERATORS,
    "PendingCall": ("arguments",),
    "ToolCall": PART_CONTENTS["tool_call"],
    "ToolResult": PART_CONTENTS["tool_result"],
}
ASKED = (*APPROVAL_OPERATORS, *APPROVAL_CONTENTS)
MAY_DECIDE = {"may_decide": {"type": "boolean", "description": "For visitors only: whether the reader may decide."}}
NAME = {"anyOf": [{"type": "string"}, {"type": "null"}]}
ENVELOPE = {"run": NAME, "parent_run": NAME, "time": {"type": "string", "format": "date-time"}}
SESSION = {"session": {"type": "string"}}


def components() -> dict[str, Any]:
    """Return the schemas of objects and frames for OpenAPI's `components`."""
    made = _definitions((*WIRE, *_bodies()), IN_OPENAPI)
    return {**made, **FILES, "Frame": _frame(IN_OPENAPI), SSE: _server_sent()}


def events_schema() -> dict[str, Any]:
    """Return the schema of one frame of a stream: `{id?, event, data}`."""
    return {
        "$schema": DIALECT,
        "title": "A frame of Parley's event streams",
        **_frame(IN_DEFS),
        "$defs": _definitions(_bodies(), IN_DEFS),
    }


def _bodies() -> tuple[type, ...]:
    return (*FACTS.values(), *LIVE.values())


def _definitions(types: tuple[Any, ...], template: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(msgspec.json.schema_components(types, ref_template=template)[1]))
    for kind, cls in {**FACTS, **LIVE}.items():
        more = ENVELOPE if kind in LIVE else {**ENVELOPE, **SESSION}
        schema = made[cls.__name__]
        schema["properties"] = {**schema["properties"], **more}
        schema["required"] = [*schema.get("required", ()), *more]
        _loosen(schema, (*OPERATORS.get(kind, ()), *CONTENTS.get(kind, ()), *(ASKED if kind in ASKING else ())))
        if "responders" in schema["properties"]:
            schema["properties"] |= MAY_DECIDE
    for name in OPTIONAL.keys() & made.keys():
        _loosen(made[name], OPTIONAL[name])
    return dict(sorted(made.items()))


def _loosen(schema: dict[str, Any], names: tuple[str, ...]) -> None:
    schema["required"] = [name for name in schema["required"] if name not in names]


def _frame(template: str) -> dict[str, Any]:
    return {
        "description": "Facts have an `id`, the sequence number in their session; live events have none.",
        "type": "object",
        "properties": {"id": {"type": "integer", "minimum": 1}, "event": {"type": "string"}},
        "required": ["event", "data"],
        "oneOf": [
            _case(kind, {"$ref": template.format(name=cls.__name__)}, fact=kind in FACTS)
            for kind, cls in {**FACTS, **LIVE}.items()
        ],
    }


def _server_sent() -> dict[str, Any]:
    """Return what a stream's event is before its data is read as JSON; after that it is a `Frame`."""
    return {
        "description": "One event of a stream; with `id` as a number and `data` read as JSON it is a `Frame`.",
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[1-9][0-9]*$"},
            "event": {"enum": sorted({**FACTS, **LIVE})},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
        "required": ["event", "data"],
    }


def _case(kind: str, data: dict[str, Any], *, fact: bool) -> dict[str, Any]:
    shape: dict[str, Any] = {"properties": {"event": {"const": kind}, "data": data}}
    return {**shape, "required": ["id"]} if fact else {**shape, "not": {"required": ["id"]}}


def text() -> str:
    """Return the published file's content."""
    return json.dumps(events_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PUBLISHED.parent.mkdir(exist_ok=True)
    PUBLISHED.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"Wrote {PUBLISHED}.\n")


BEARER = {"bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a visitor's token."}}


def install(app: FastAPI) -> None:
    """Make *app* describe itself, once, when first asked."""
    app.openapi = partial(_openapi, app)


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, routes=app.routes, tags=app.openapi_tags)
        shapes = made.setdefault("components", {}).setdefault("schemas", {})
        shapes.update(components())
        made["components"]["securitySchemes"] = BEARER
        for path, operations in made["paths"].items():
            for operation in operations.values():
                operation["security"] = [{"bearer": []}] if path.startswith(GUARDED) and path not in OPEN else []
        app.openapi_schema = made
    return app.openapi_schema
