"""The routes as the guard sees them: which one takes a request, who may use it, and how large its body may be."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args

from fastapi.routing import iter_route_contexts
from pydantic import BaseModel
from starlette.routing import BaseRoute

from agent_core import MAX_FILE
from app.api.bodies.forms import AROUND
from app.api.deps import operator
from app.api.entrance.scan import MAX_VALUES

SMALL = 64_000
"""Bytes of a body where nothing else is said."""
MESSAGE = 400 * 1024
"""Bytes where a text is sent: 100,000 characters of four bytes each, and what is around them."""
AGENT = 2_000_000
"""Bytes of an agent, which only operators send: instructions of 200,000 characters, schemas of 200 tools."""
TOOL = 300_000
"""Bytes of a tool's definition: a schema of 32,000, presets and a configuration of 64,000 each."""
RENDER = 600_000
"""Bytes of a render, of which the log holds 512,000, and what is around it."""
FILE = MAX_FILE + AROUND
"""Bytes of a form with a file; what an agent allows of it is less, see `uploads`."""
SECRET = 4_000
"""Bytes of a request for which no credential is asked: an agent and a secret."""
SIGNED = 1_000_000
"""Bytes of a request that is signed: it is read before it is known who sent it."""
BODIES = {
    "/v1/files": FILE,
    "/v1/sessions/{id}/messages": MESSAGE,
    "/v1/sessions/{id}/replies": MESSAGE,
    "/v1/agents/{id}/runs": MESSAGE,
    "/v1/runs/{id}/tool-outputs": MESSAGE,
    "/v1/runs/{id}/feedback": MESSAGE,
    "/v1/approvals/{id}": MESSAGE,
    "/v1/renders/preview": RENDER,
    "/v1/agents": AGENT,
    "/v1/agents/{id}": AGENT,
    "/v1/tools": TOOL,
    "/v1/tools/{id}": TOOL,
    "/v1/tools/{id}/call": MESSAGE,
    "/v1/web/anonymous": SECRET,
    "/slack/events": SIGNED,
    "/slack/interactivity": SIGNED,
    "/slack/commands": SIGNED,
}
"""The most bytes of a body by the path of its route."""

FORMS = frozenset({"/v1/files"})
"""The routes that read a form themselves, as it arrives."""

VALUES = {"/v1/renders/preview": 100_000}
"""The most values of a body where it is not `scan.MAX_VALUES`: 500 rows of many columns, as operators alone send."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """One route: *most* bytes and *values* of a body, *model* what it is read as, and whether *operators* alone use it.

    *template* is its path as `scopes.SCOPE_OF` names it.
    """

    path: str
    template: str
    pattern: re.Pattern[str]
    methods: frozenset[str]
    operators: bool
    most: int
    model: type[BaseModel] | None
    values: int = MAX_VALUES


class Entrances:
    """Finds the route of a request by the patterns that the router itself has compiled."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._all = tuple(_entrances(routes))

    def find(self, method: str, path: str) -> Entrance | None:
        """Return the route that takes *method* at *path*; None where the router answers 404 or 405."""
        for each in self._all:
            if method in each.methods and each.pattern.match(path):
                return each
        return None


def _entrances(routes: Sequence[BaseRoute]) -> Iterator[Entrance]:
    for context in iter_route_contexts(routes):
        if context.path_format is None or context.methods is None:
            continue
        dependant = getattr(context, "dependant", None)
        yield Entrance(
            context.path_format,
            context.path or context.path_format,
            context.path_regex,
            frozenset(context.methods),
            dependant is not None and _asks_operator(dependant),
            BODIES.get(context.path_format, SMALL),
            _model(getattr(context, "body_field", None)),
            VALUES.get(context.path_format, MAX_VALUES),
        )


def _asks_operator(dependant: Any) -> bool:
    return any(each.call is operator or _asks_operator(each) for each in dependant.dependencies)


def _model(field: Any) -> type[BaseModel] | None:
    """Return what a body is read as, where it is one type; it may be left out."""
    kind = None if field is None else field.field_info.annotation
    kind = next((each for each in get_args(kind) if each is not NoneType), kind)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
