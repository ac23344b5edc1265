"""The lines that a site writes into its pages to embed the widget."""

import html
from dataclasses import dataclass
from urllib.parse import urlencode

from channels.web.frame_page import FRAME
from channels.web.routes import widget

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
