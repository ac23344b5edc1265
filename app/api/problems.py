"""Errors as answers: every one leaves as a problem (RFC 9457) that names the fields."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from agent_core.charts.draw import DrawingFailed, DrawingUnavailable
from agent_core.errors import (
    Conflict,
    Forbidden,
    IdempotencyMismatch,
    InvalidInput,
    NotFound,
    ParleyError,
    RateLimited,
    TooLarge,
    Unavailable,
    UnknownCursor,
)
from agent_core.messages import shorten
from agent_core.schemas import MAX_DEPTH
from app.api.wire import FieldProblem, Problem
from channels.web.demo import Unauthorized

Fault = tuple[str, str]
"""A path, and what is wrong there."""
NUL = "\0"
NUL_FAULT = "the character U+0000 cannot be kept; leave it out."
DEEP_FAULT = f"nested more than {MAX_DEPTH} levels deep."
# The only way to write it in JSON.
_NUL_ESCAPED = b"\\u0000"
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]', re.DOTALL)
# Steps of the path to what is too deep: they name the field, and more would not help.
_STEPS_SHOWN = 5


def path_of(steps: Sequence[str | int]) -> str:
    """Return the path that *steps* lead along, as every error writes it: `hooks[0].config.url`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def fault_of(body: bytes, value: Any) -> Fault | None:
    """Return what in *body*, which was read as *value*, cannot be kept; without an escape in it nothing is walked."""
    if _NUL_ESCAPED in body and (path := place_of_nul(value)) is not None:
        return path, NUL_FAULT
    return None


def place_of_depth(body: bytes) -> str:
    """Return the first steps of the path to what is too deep in *body*; empty when it is no JSON up to there."""
    path: list[Any] = []
    try:
        for token in _TOKENS.finditer(body):
            _step(path, token[0])
            if len(path) > MAX_DEPTH:
                break
    except (IndexError, msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    return path_of(path[:_STEPS_SHOWN])


def _step(path: list[Any], token: bytes) -> None:
    """Take one *token* of JSON into account."""
    match token:
        case b"{" | b"[" as opens:
            path.append("" if opens == b"{" else 0)
        case b"}" | b"]":
            path.pop()
        case b",":
            path[-1] += 1 if isinstance(path[-1], int) else ""
        case text if path and isinstance(path[-1], str):  # of all texts in an object the last is the field's name
            path[-1] = msgspec.json.decode(text)
        case _:
            pass


def place_of_nul(root: Any) -> str | None:
    """Return the path to the first text in *root*, a field's name included, that holds U+0000; None without any."""
    path: list[str | int] = []
    left: list[Iterator[tuple[str | int, Any]]] = [iter([("", root)])]
    while left:
        item = next(left[-1], None)
        if item is None:
            left.pop()
            del path[-1:]
            continue
        name, value = item
        if (isinstance(name, str) and NUL in name) or (isinstance(value, str) and NUL in value):
            return path_of([*path, name][1:]).replace(NUL, "\\u0000")
        if isinstance(value, dict | list):
            path.append(name)
            left.append(_children(value))
    return None


def _children(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str | int, Any]]:
    return iter(value.items() if isinstance(value, dict) else enumerate(value))


MEDIA_TYPE = "application/problem+json"
CODES = {
    400: "invalid_json",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    422: "invalid_request",
    429: "rate_limited",
    500: "internal_error",
    503: "unavailable",
}
MAX_ERRORS, MAX_BYTES = 20, 8_000
"""Fields that an answer names, and its bytes."""
MAX_PATH, MAX_MESSAGE, MAX_DETAIL = 200, 400, 1_000
"""Characters of a field's path, of what is wrong with it, and of the sentence for people."""
# `Retry-After`, in seconds, while the database is unavailable.
AWAY = 2
# The first class that fits gives the status.
STATUSES: tuple[tuple[type[ParleyError], int], ...] = (
    (NotFound, 404),
    (TooLarge, 413),
    (UnknownCursor, 400),
    (IdempotencyMismatch, 422),
    (InvalidInput, 422),
    (Conflict, 409),
    (Forbidden, 403),
    (RateLimited, 429),
    (Unavailable, 503),
    (DrawingUnavailable, 503),
    (DrawingFailed, 422),
)
# The fields whose length is that of a message: too long is too large.
TEXTS = frozenset({"text", "input", "parts", "comment", "arguments", "error"})
# A text must contain a character that is not white space.
NOT_BLANK = r"\S"
TITLES = {
    "already_decided": "Already decided",
    "not_an_approver": "Not an approver",
    "session_busy": "The session is busy",
    "unknown_cursor": "Unknown cursor",
}


def problem(
    status: int,
    detail: str,
    *,
    code: str | None = None,
    errors: Sequence[tuple[str, str]] = (),
    headers: Mapping[str, str] | None = None,
    approval: Any = None,
    more: int = 0,
) -> Response:
    """Return the error answer; *errors* are pairs of a field's path and what is wrong with it, *more* are not named.

    It names at most `MAX_ERRORS` fields, and has at most `MAX_BYTES` beside *approval*, which is the outcome, as the
    caller may see it, where a decision came too late.
    """
    code = code or CODES.get(status, "error")
    title = TITLES.get(code) or HTTPStatus(status).phrase
    shown = [
        FieldProblem(shorten(path, MAX_PATH), shorten(message, MAX_MESSAGE)) for path, message in errors[:MAX_ERRORS]
    ]
    more += len(errors) - len(shown)
    body = Problem(title=title, status=status, code=code, detail=shorten(detail, MAX_DETAIL), errors=_with(shown, more))
    encoded = msgspec.json.encode(body)
    while len(encoded) > MAX_BYTES and shown:  # of characters that take several bytes each
        shown, more = shown[: len(shown) // 2], more + len(shown) - len(shown) // 2
        body = msgspec.structs.replace(body, errors=_with(shown, more))
        encoded = msgspec.json.encode(body)
    if approval is not None:
        encoded = msgspec.json.encode(msgspec.structs.replace(body, approval=approval))
    return Response(encoded, status, headers, MEDIA_TYPE)


def _with(shown: Sequence[FieldProblem], more: int) -> tuple[FieldProblem, ...]:
    return (*shown, FieldProblem("", f"… and {more:,} more.")) if more else tuple(shown)


def unauthorized(fault: str | None = None) -> Response:
    """Return the answer to a request without a valid key or token; *fault* says what is wrong with a genuine one."""
    detail = "Send `Authorization: Bearer <api key>`, or a visitor's token that has not expired."
    return problem(401, fault or detail, headers={"WWW-Authenticate": "Bearer"})


def slowed(seconds: int) -> Response:
    """Return the answer to an address from which too many logins failed; a valid key still works from there."""
    detail = f"Too many failed logins from this address; come back in {seconds} seconds with a valid key."
    return problem(429, detail, headers={"Retry-After": str(seconds)})


def install(app: FastAPI) -> None:
    """Make every error of *app* leave as a problem."""

    async def missing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _http(request, error, app.routes)

    app.add_exception_handler(ParleyError, _parley)
    app.add_exception_handler(Unauthorized, _password)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, missing)
    app.add_exception_handler(Exception, _crash)


async def _password(_: Request, __: Exception) -> Response:
    detail = "The demo page asks for its password, with any name: PARLEY_DEMO_PASSWORD."
    return problem(401, detail, headers={"WWW-Authenticate": 'Basic realm="Parley demo", charset="UTF-8"'})


async def _parley(_: Request, error: Exception) -> Response:
    assert isinstance(error, ParleyError)
    return refusal(error)


def refusal(error: ParleyError) -> Response:
    """Return *error* as an answer; raises it when it is none that callers are shown."""
    for cls, status in STATUSES:
        if isinstance(error, cls):
            return problem(status, str(error), code=error.code, errors=_fields(error), headers=_again(error))
    raise error


def _fields(error: ParleyError) -> Sequence[tuple[str, str]]:
    """Return the fields that *error* is about, each with what is wrong with it."""
    match error:
        case InvalidInput(faults=faults):
            return [(fault.path, fault.message) for fault in faults]
        case _:
            return ()


def _again(error: ParleyError) -> dict[str, str] | None:
    """Return when the same may be tried again, as a header, where that helps."""
    match error:
        case RateLimited():
            return {"Retry-After": str(error.retry_after)}
        case Unavailable() | DrawingUnavailable():
            return {"Retry-After": str(AWAY)}
        case _:
            return None


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = error.errors()
    if any(e["type"] == "json_invalid" for e in errors):
        return problem(400, "The body is not valid JSON.")
    return invalid(errors, error.body)


def invalid(faults: Sequence[Mapping[str, Any]], body: Any) -> Response:
    """Return the answer to a request in which pydantic found *faults*; their first steps say where in it they are."""
    errors = [(_path(e, body), _message(e)) for e in faults[:MAX_ERRORS]]
    more = len(faults) - len(errors)
    detail = "; ".join(f"`{path}`: {message}" if path else message for path, message in errors[:3])
    if any(e["type"] == "string_too_long" and e["loc"][-1] in TEXTS for e in faults):
        return problem(413, detail, errors=errors, more=more)
    return problem(422, detail, errors=errors, more=more)


def _path(error: Mapping[str, Any], body: Any) -> str:
    """Return the path of the field that *error* is about; the first step of its `loc` says where the value came from.

    A step that *body* does not have is a missing field, at the end, or the name that pydantic gives to a branch of a
    union or to a validator.
    """
    loc: Sequence[str | int] = error["loc"]
    if loc[0] != "body":
        return str(loc[1])
    steps: list[str | int] = []
    missing = len(loc) - 1 if error["type"] == "missing" else None
    for i, step in enumerate(loc[1:], 1):
        match body:
            case dict() if step in body or i == missing:
                body = body.get(step)
            case list() if isinstance(step, int):
                body = body[step] if step < len(body) else None
            case _:
                continue
        steps.append(step)
    return path_of(steps)


def _message(error: Mapping[str, Any]) -> str:
    """Say it without the prefix that pydantic gives to our own sentences, and a pattern in words."""
    if error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] == NOT_BLANK:
        return "must not be empty or blank."
    return str(error["msg"]).removeprefix("Value error, ")


def _http(request: Request, error: HTTPException, routes: Sequence[BaseRoute]) -> Response:
    match error.status_code:
        case 404:
            return problem(404, f"There is nothing at `{request.url.path[:200]}`.")
        case 405:
            allow = ", ".join(allowed(request.scope, routes))
            detail = f"`{request.method}` does not work here; allowed: {allow}."
            return problem(405, detail, headers={"Allow": allow})
        case 400:
            return problem(400, "The body is not valid JSON.")
        case status:
            return problem(status, str(error.detail), headers=error.headers)


def allowed(scope: Scope, routes: Sequence[BaseRoute]) -> list[str]:
    """Return every method that some route takes at the path of *scope*."""
    methods = [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return sorted(methods)


async def _crash(_: Request, __: Exception) -> Response:
    # Sent from outside of the middleware that adds these to all others.
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return problem(500, "Something broke on our side; the server's log says what.", headers=headers)


def answers(
    model: type | str | None,
    *codes: int,
    status: int = 200,
    media: str = "application/json",
) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route for OpenAPI: *model* with *status*, the problems *codes*, and 503 beside them.

    *model* is one of our types, or the name of a component.
    """
    first: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if model is not None:
        first["content"] = {media: {"schema": reference(model)}}
    shape = {MEDIA_TYPE: {"schema": reference(Problem)}}
    statuses = sorted({*codes, 503}) if codes else ()
    problems = {code: {"description": HTTPStatus(code).phrase, "content": shape} for code in statuses}
    return {status: first, **problems}


@cache
def reference(model: type | str) -> dict[str, Any]:
    """Return the JSON Schema reference of *model* inside OpenAPI; made once: routes name the same few."""
    if isinstance(model, str):
        return {"$ref": f"#/components/schemas/{model}"}
    schema = msgspec.json.schema_components([model], ref_template="#/components/schemas/{name}")[0][0]
    return json.loads(json.dumps(schema))
