"""Bodies as JSON: how deep and large one is as it arrives, whether it can be kept, and what its route takes.

The scan parses nothing: what is in texts is cut away and brackets and commas are counted, each by one call of a
built-in per piece. For JSON the figures are exact; for what is none the parser finds that later, in the same bounds.
"""

from array import array
from collections.abc import Callable, Coroutine
from itertools import accumulate, islice
from typing import Any, Literal

import msgspec
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from agent_core.schemas import MAX_DEPTH
from app.api.entrance.plain import fault_of, place_of_depth
from app.api.problems import MAX_ERRORS, invalid, problem

MAX_VALUES = 20_000
"""Values of a body, fields of objects and items of lists: what comes after the scan takes under 10 ms for so many."""
Excess = Literal["deep", "many", "unbalanced"]
# Bytes that are looked at together: a bracket too deep ends the scan before the rest of its piece is added up.
_PIECE = 16_384
_OPENS, _CLOSES, _COMMA = b"{[", b"]}", b","
_NOT_BRACKETS = bytes(set(range(256)) - set(_OPENS + _CLOSES))
_STEPS = bytes.maketrans(_OPENS + _CLOSES, b"\x01\x01\xff\xff")
MAX_FAULTS = 1_000
"""Faults that are put into words: 2 ms of work."""
_DEEP = f"nested more than {MAX_DEPTH} levels deep."
READ = "parley.body"
"""Where a request's scope has its body as the model that its route takes, if it was large."""


class BodyRoute(APIRoute):
    """A route with a body; each route that takes JSON is one, or it would validate a large one on the event loop."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests, with what was read of them."""
        handle = super().get_route_handler()

        async def of_read(request: Request) -> Response:
            return await handle(_ReadRequest(request.scope, request.receive))

        return of_read


class _ReadRequest(Request):
    async def json(self) -> Any:
        """Return the body as its model, of which pydantic takes an instance as it is; a small one as JSON."""
        read = self.scope.get(READ)
        return await super().json() if read is None else read


class Scan:
    """Counts what it is fed; what it keeps between two pieces is whether a text is open, and two numbers."""

    def __init__(self, *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES) -> None:
        self._max_depth, self._max_values = max_depth, max_values
        self._in_text = 0
        self._escape = b""
        self._depth = 0
        self.values = 0

    def feed(self, chunk: bytes) -> Excess | None:
        """Take the next bytes, of any number; return which bound is passed."""
        for begin in range(0, len(chunk), _PIECE):
            if (excess := self._take(chunk[begin : begin + _PIECE])) is not None:
                return excess
        return None

    def _take(self, piece: bytes) -> Excess | None:
        outside = self._outside(piece)
        self.values += outside.count(_COMMA) + sum(map(outside.count, (b"{", b"[")))
        if self.values > self._max_values:
            return "many"
        steps = array("b", outside.translate(_STEPS, _NOT_BRACKETS))
        if not steps:
            return None
        depths = list(accumulate(steps, initial=self._depth))
        self._depth = depths[-1]
        if max(depths) > self._max_depth:
            return "deep"
        return "unbalanced" if self._depth < 0 else None

    def _outside(self, piece: bytes) -> bytes:
        """Return what of *piece* is in no text."""
        piece = self._escape + piece
        # An even number of backslashes at the end is complete; of an odd one the last escapes what comes next.
        odd = (len(piece) - len(piece.rstrip(b"\\"))) % 2
        self._escape = b"\\" if odd else b""
        if odd:
            piece = piece[:-1]
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[self._in_text :: 2])
        self._in_text = (self._in_text + len(parts) - 1) % 2
        return outside


def no_json(detail: str) -> Response:
    """Return the answer to a body that is not JSON."""
    return problem(400, detail)


def too_complex(excess: Excess, begin: bytes, most: int = MAX_VALUES) -> Response:
    """Return the answer to a body that passed a bound of the scan, *most* values for one; *begin* had arrived."""
    match excess:
        case "deep":
            place = place_of_depth(begin)
            return problem(422, f"`{place}`: {_DEEP}", errors=[(place, _DEEP)])
        case "many":
            return problem(422, f"This body holds at most {most:,} values: fields of objects and items of lists.")
        case "unbalanced":
            return no_json("The body is not valid JSON: a bracket closes nothing.")


def fault_in(body: bytes) -> Response | None:
    """Return the answer to a *body* that is no JSON or cannot be kept; None when the route can read it."""
    value = _decoded(body)
    return value if isinstance(value, Response) else None


def read(body: bytes, model: type[BaseModel]) -> BaseModel | Response:
    """Return *body* as the *model* that its route takes, or the answer to one that is none."""
    value = _decoded(body)
    if isinstance(value, Response):
        return value
    try:
        return model.model_validate(value)
    except ValidationError as error:
        return _faults(error, value, model)


def _decoded(body: bytes) -> Any:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return no_json(f"The body is not valid JSON: {error}.")
    fault = fault_of(body, value)
    return value if fault is None else problem(422, "`{}`: {}".format(*fault), errors=[fault])


def _faults(error: ValidationError, value: Any, model: type[BaseModel]) -> Response:
    count = error.error_count()
    if count <= MAX_FAULTS:
        return invalid([{**each, "loc": ("body", *each["loc"])} for each in error.errors()], value)
    unknown = (name for name in value if name not in model.model_fields) if isinstance(value, dict) else iter(())
    named = [(name, "Extra inputs are not permitted") for name in islice(unknown, MAX_ERRORS)]
    return problem(422, f"{count:,} values are wrong.", errors=named, more=count - len(named))
