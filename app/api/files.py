"""Answers that are files: their names, and the tags by which a client knows that it has them already."""

from hashlib import sha256
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from agent_core import RenderObject

KEPT = "private, no-cache"
"""The caller may keep the answer, and asks before each use: what a person wrote can be deleted, a token revoked."""
SVG = "image/svg+xml"
INERT = {"Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'"}
"""For SVG, which is a page where it is opened as one: no script, no form, and nothing is loaded."""
_MAX_STEM = 80
_FORBIDDEN = frozenset('/\\:*?"<>|')


def tag_of(render: RenderObject, *form: object) -> str:
    """Return the `ETag` of *render* in a *form*: it changes with what is shown, as it does when a person is deleted."""
    shown = (render.id, render.kind, render.title, render.payload, render.text, *map(str, form))
    return f'"{sha256(msgspec.json.encode(shown)).hexdigest()[:32]}"'


def known(request: Request, tag: str) -> Response | None:
    """Return the answer 304 when the caller has what *tag* names; None otherwise."""
    tags = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
    return Response(status_code=304, headers=_headers(tag)) if tags & {tag, "*"} else None


def file(data: bytes, media: str, tag: str, *, attached: str | None = None) -> Response:
    """Return *data* as an answer with *tag*; with the name *attached* a browser saves it and does not show it."""
    named = {} if attached is None else {"Content-Disposition": _attachment(attached)}
    return Response(data, headers={**_headers(tag), **named, **(INERT if media == SVG else {})}, media_type=media)


def file_name(title: str | None, ending: str) -> str:
    """Return the name of a file with *title*, without what a system takes for a path, a device or a control."""
    allowed = "".join(" " if each in _FORBIDDEN or not each.isprintable() else each for each in title or "")
    stem = " ".join(allowed.split())[:_MAX_STEM].strip(". ")
    return f"{stem or 'render'}.{ending}"


def _headers(tag: str) -> dict[str, str]:
    return {"ETag": tag, "Cache-Control": KEPT}


def _attachment(name: str) -> str:
    """Return the header for *name*, after RFC 6266: in ASCII, and whole in UTF-8 for those who read that."""
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
