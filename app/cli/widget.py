"""`parley widget`: what a site needs to embed the widget."""

from typing import Annotated

import typer

from app.printer import say

ROUTE = "/parley-token"
widget = typer.Typer(help="The widget for web pages.", no_args_is_help=True)

Agent = Annotated[str, typer.Option(help="Id or name of the agent.")]
Server = Annotated[str | None, typer.Option(metavar="URL", help="Where browsers reach the server.")]
TokenUrl = Annotated[str, typer.Option(metavar="URL", help="The route of your site that makes visitors' tokens.")]
Anonymous = Annotated[bool, typer.Option("--anonymous", help="Visitors without a name, where the agent allows them.")]
AsLauncher = Annotated[bool, typer.Option("--launcher", help="A bubble in a corner of the page, as one line.")]
AsFrame = Annotated[bool, typer.Option("--frame", help="An iframe, for pages that take no script of another origin.")]
Pinned = Annotated[bool, typer.Option("--pinned", help="This version for good, with its integrity.")]


@widget.callback()
def widget_commands() -> None:
    """Embed the widget."""


@widget.command()
def snippet(
    *,
    agent: Agent = "assistant",
    server: Server = None,
    token_url: TokenUrl = ROUTE,
    anonymous: Anonymous = False,
    launcher: AsLauncher = False,
    pinned: Pinned = False,
    frame: AsFrame = False,
) -> None:
    """Print the lines to write into a page."""
    from app.setting_texts import web_address
    from app.settings import load_settings
    from channels.web.frame_page import Snippet, UnknownScript

    if frame and (launcher or pinned):
        raise typer.BadParameter("An iframe goes without --launcher and --pinned.", param_hint="--frame")
    settings = load_settings(serving=False)
    try:
        place = web_address(server) if server is not None else settings.public_url or settings.url
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--server") from None
    made = Snippet(
        server=(place or f"http://{settings.host}:{settings.port}").rstrip("/"),
        agent=agent,
        token_url=None if anonymous else token_url,
        launcher=launcher,
        pinned=pinned,
        frame=frame,
    )
    try:
        say(made.text())
    except UnknownScript as error:
        raise typer.BadParameter(str(error), param_hint="--pinned") from None
