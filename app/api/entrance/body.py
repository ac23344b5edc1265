"""The check of a whole body: that it is JSON, can be kept, and does not fail in more fields than an answer names."""

from itertools import islice
from typing import Any

import msgspec
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from agent_core.domain.schemas import MAX_DEPTH
from app.api.entrance.plain import fault_of, place_of_depth
from app.api.entrance.scan import MAX_VALUES, Excess
from app.api.problems import MOST_ERRORS, problem

MOST_FAULTS = 1_000
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


def fault_in(body: bytes, model: type[BaseModel] | None) -> Response | None:
    """Return the answer to a *body* that is no JSON or cannot be kept; None when the route can read it.

    With a *model* that it is read as, an answer too to one with more faults than the route should put into words.
    """
    try:
        given = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return no_json(f"The body is not valid JSON: {error}.")
    fault = fault_of(body, given)
    if fault is not None:
        return problem(422, "`{}`: {}".format(*fault), errors=[fault])
    return None if model is None else _many_faults(given, model)


def _many_faults(given: Any, model: type[BaseModel]) -> Response | None:
    try:
        model.model_validate(given)
    except ValidationError as error:
        count = error.error_count()
    else:
        return None
    if count <= MOST_FAULTS:
        return None
    unknown = (name for name in given if name not in model.model_fields) if isinstance(given, dict) else iter(())
    named = [(name, "Extra inputs are not permitted") for name in islice(unknown, MOST_ERRORS)]
    return problem(422, f"{count:,} values are wrong.", errors=named, more=count - len(named))
