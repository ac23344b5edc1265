"""The check of a whole body: that it is JSON, can be kept, and is what its route takes; the routes that take one."""

from itertools import islice
from typing import Any

import msgspec
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from agent_core.domain.schemas import MAX_DEPTH
from app.api.entrance.plain import fault_of, place_of_depth
from app.api.entrance.scan import MAX_VALUES, Excess
from app.api.problems import MAX_ERRORS, invalid, problem

MAX_FAULTS = 1_000
"""Faults that are put into words: 2 ms of work."""
_DEEP = f"nested more than {MAX_DEPTH} levels deep."


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
