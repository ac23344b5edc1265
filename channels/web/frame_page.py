"""The page that sites embed as an iframe, where they take no script of another origin."""

import html
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from channels.web.routes import Widget, widget

FRAME = "/widget/frame"
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types parley-chat; frame-ancestors "
)
SCRIPTS = ("parley-chat.js", "parley-frame.js")
DOCUMENT = """<!doctype html>
<html lang="{lang}">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content">
  <meta name="color-scheme" content="{scheme}">
  <meta name="parley-ancestors" content="{ancestors}">
  <title>{title}</title>
{scripts}
</head>
<body{data}><noscript>This page needs JavaScript.</noscript></body>
</html>
"""
Text = Annotated[str | None, Field(max_length=200)]


class FrameQuery(BaseModel):
    """What the address of the page says of its conversation: attributes of the element that widen nothing.

    *anonymous*: visitors without a name, where the agent allows them on pages of this server's own origin; with any
    value, also an empty one.
    """

    model_config = ConfigDict(extra="forbid")
    agent: Text = None
    heading: Text = None
    greeting: Annotated[str | None, Field(max_length=500)] = None
    placeholder: Text = None
    theme: Literal["light", "dark", "auto"] | None = None
    locale: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9-]{1,35}$")] = None
    anonymous: Annotated[str | None, Field(max_length=10)] = None


def frame_router(ancestors: Sequence[str]) -> APIRouter:
    """Return the route of the page that pages of the origins *ancestors* may embed, and no other; without any, none."""
    router = APIRouter(include_in_schema=False)
    if not ancestors:
        return router

    @router.get(FRAME)
    async def show_frame(query: Annotated[FrameQuery, Query()]) -> Response:
        """Return the page."""
        return Response(document(ancestors, query, widget()), 200, headers(ancestors), "text/html")

    return router


def document(ancestors: Sequence[str], query: FrameQuery, made: Widget) -> str:
    """Return the page, with the scripts of the build *made* pinned by their hashes."""
    scripts = (
        f'  <script type="module" src="/widget/{made.build}/{name}" integrity="{made.files[name].integrity}" '
        'crossorigin="anonymous"></script>'
        for name in SCRIPTS
    )
    attributes = query.model_dump(exclude_none=True)
    return DOCUMENT.format(
        lang=query.locale or "en",
        scheme=query.theme if query.theme in {"light", "dark"} else "light dark",
        ancestors=html.escape(" ".join(ancestors)),
        title=html.escape(query.heading or "Chat"),
        scripts="\n".join(scripts),
        data="".join(f' data-{name}="{html.escape(value)}"' for name, value in attributes.items()),
    )


def headers(ancestors: Sequence[str]) -> dict[str, str]:
    """Return the headers of the page."""
    return {
        "Cache-Control": "no-store",
        "Content-Security-Policy": POLICY + " ".join(ancestors),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
