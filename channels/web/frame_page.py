"""The page that sites embed as an iframe, where they take no script of another origin."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlencode

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


SANDBOX = "allow-scripts allow-same-origin allow-forms allow-popups allow-popups-to-escape-sandbox allow-downloads"
"""What an iframe needs: the script, the server's own origin (its storage and requests), sending, links, and saving."""
OWN_SCRIPT = "/parley-frame.js"
"""The site's own script, of the manual, that gives the iframe its tokens."""


class UnknownScript(Exception):
    """The build of this installation does not name a script, so that nothing can be pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """What the lines say: the *server*'s address, the *agent*, and where tokens come from.

    *token_url* is a route of the site; None: visitors without a name. *launcher*: a bubble in a corner, as one line.
    *pinned*: this version of the widget for good, and no other, by its hash. *frame*: an iframe, and no script of the
    server in the page.
    """

    server: str
    agent: str
    token_url: str | None
    launcher: bool = False
    pinned: bool = False
    frame: bool = False

    def text(self) -> str:
        """Return the lines, as HTML. Raises `UnknownScript` where a script to pin is not in the build."""
        if self.frame:
            return self._frame()
        source = {"token-url": self.token_url} if self.token_url is not None else {"anonymous": ""}
        if self.launcher:
            data = {f"data-{name}": value for name, value in {"agent": self.agent, **source}.items()}
            return f"<script{_written({**self._script('parley-loader.js'), **data})} defer></script>"
        chat = {"server": self.server, "agent": self.agent, **source}
        script = {"type": "module", **self._script("parley-chat.js")}
        return f"<script{_written(script)}></script>\n<parley-chat{_written(chat)}></parley-chat>"

    def _frame(self) -> str:
        query = {"agent": self.agent, **({"anonymous": ""} if self.token_url is None else {})}
        iframe = {
            "id": "parley",
            "src": f"{self.server}{FRAME}?{urlencode(query)}",
            "title": "Chat",
            "width": "100%",
            "height": "640",
            "sandbox": SANDBOX,
            "allow": "clipboard-write",
        }
        lines = [f"<iframe{_written(iframe)}></iframe>"]
        if self.token_url is not None:
            script = {"src": OWN_SCRIPT, "data-token-url": self.token_url, "defer": ""}
            lines.append(f"<script{_written(script)}></script>")
        return "\n".join(lines)

    def _script(self, name: str) -> dict[str, str]:
        if not self.pinned:
            return {"src": f"{self.server}/widget/{name}"}
        bundle = widget()
        if name not in bundle.files:
            raise UnknownScript(f"`{name}` is not among the widget's files (widget.json): build the widget again.")
        pins = {"integrity": bundle.files[name].integrity, "crossorigin": "anonymous"}
        return {"src": f"{self.server}/widget/{bundle.build}/{name}", **pins}


def _written(attributes: dict[str, str]) -> str:
    return "".join(f' {name}="{html.escape(value)}"' if value else f" {name}" for name, value in attributes.items())
