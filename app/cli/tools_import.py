"""`parley tools import`: HTTP tools of an OpenAPI document."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.printer import remark, say

if TYPE_CHECKING:
    from app.openapi_import.importing import Imported


def import_tools(
    document: Annotated[str, typer.Argument(help="An OpenAPI 3.0 or 3.1 document: a file, or a URL.")],
    *,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="GLOB", help="Operations by id or tag; give it again for more."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write a file into this folder; without it, print the YAML.")
    ] = None,
    server: Annotated[str | None, typer.Option("--server", metavar="URL", help="The API's address.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file of an import that was edited, or has other tools.")
    ] = False,
) -> None:
    """Write HTTP tools, as YAML, for the operations of an OpenAPI document."""
    from agent_core import ConfigError
    from app.openapi_import.document import document_of
    from app.openapi_import.importing import imported, written

    result = imported(document_of(_read(document), document), only=only or (), server=server, source=document)
    if not result.tools and not result.skipped:
        raise ConfigError(f"{document}: has no operation that fits; `--only` compares ids and tags.")
    text = written(result, document)
    if out is None:
        say(text)
    elif result.tools:
        say(f"wrote {_write(out, result, text, force=force)}: {len(result.tools)} tools")
    for each in result.skipped:
        remark(f"skipped {each}")
    for each in result.left_out:
        remark(f"left out of {each}")
    for name, what in sorted(result.secrets.items()):
        remark(f"parley secrets set {name}  # {what}")
    if not result.tools:
        raise typer.Exit(1)


def _read(document: str) -> bytes:
    from agent_core import ConfigError

    if document.startswith(("http://", "https://")):
        return asyncio.run(_fetched(document))
    try:
        return Path(document).read_bytes()
    except OSError as error:
        raise ConfigError(f"{document}: cannot be read ({error.strerror}).") from None


async def _fetched(url: str) -> bytes:
    from agent_core import ConfigError
    from agent_core.net.fetch import Bounds, Fetch, FetchFailed
    from app.openapi_import.document import MAX_BYTES
    from app.settings import load_settings

    fetch = Fetch(load_settings(serving=False).fetch_allow)
    try:
        answer = await fetch(url, bounds=Bounds(size=MAX_BYTES))
    except FetchFailed as error:
        raise ConfigError(f"{url}: {error}") from None
    finally:
        await fetch.close()
    if answer.status != 200:  # noqa: PLR2004 - HTTP's own number
        raise ConfigError(f"{url}: answered {answer.status}.")
    return answer.body


def _write(out: Path, result: "Imported", text: str, *, force: bool) -> Path:
    """Write *text* into the folder *out*; raise ConfigError rather than replace what another hand wrote.

    With *force* only a file that no import wrote is spared.
    """
    from agent_core import ConfigError
    from app.openapi_import.importing import HEADER, changed_since, file_name

    path = out / file_name(result.title)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.read_text("utf-8").startswith(HEADER):
            raise ConfigError(f"{path}: is there, and no import wrote it; move it, or choose another folder.")
        if path.exists() and not force and (why := changed_since(path, result)) is not None:
            raise ConfigError(f"{path}: {why}; give --force to replace it, or choose another folder.")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}).") from None
    return path
