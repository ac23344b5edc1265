"""What commands print: nothing that comes from a server or a person commands the terminal."""

import ast
import io
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from typer.testing import CliRunner

from app import logs
from app.cli import client
from app.cli.client import Client
from app.cli.commands import app
from app.cli.keys import COLUMNS
from app.cli.printing import listed
from tests.cases import for_each

ROOT = Path(__file__).parents[3]
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2066\u200b\r\nrun_1  completed"
# Where the application writes to the terminal: the printer, text that `channels.terminal` has made visible, an error
# that is made visible there, and two constants.
PRINTERS = {
    "app/logs.py",
    "app/cli/chat/command.py",
    "app/__main__.py",
    "app/serving/server.py",
    "app/api/schemas.py",
}
COMMANDS = (
    ("agents", "list"),
    ("runs", "list"),
    ("runs", "show", "run_1"),
    ("runs", "cancel", "run_1"),
    ("runs", "tail", "run_1"),
    ("sessions", "list"),
    ("sessions", "show", "ses_1"),
    ("sessions", "refreeze", "ses_1"),
    ("approvals", "list"),
    ("approvals", "list", "--json"),
    ("keys", "list"),
    ("runs", "list", "--json"),
    ("approvals", "decide", "apr_1", "--approve"),
    ("approvals", "audit"),
    ("audit",),
    ("keys", "revoke", "key_1"),
    ("web-keys", "list"),
    ("web-keys", "list", "--json"),
    ("secrets", "list"),
    ("cost",),
    ("tools", "list"),
    ("tools", "show", "look"),
    ("tools", "show", "look", "--json"),
    ("tools", "accept", "shop", "--yes"),
    ("mcp", "list"),
    ("mcp", "show", "shop"),
    ("mcp", "accept", "shop", "--yes"),
)
FORGED = "run_1  completed"
"""What `EVIL` writes at the beginning of a line of its own, where a command's own lines begin."""


def hostile() -> dict[str, Any]:
    """Return an object with all fields that a command prints, hostile as far as its type allows."""
    names = ("id", "name", "source", "model", "status", "session", "created_at", "cost", "last_activity_at", "title")
    texts = dict.fromkeys((*names, "role", "tool", "expires_at", "requested_at", "used_at", "revoked_at"), EVIL)
    part = {"type": "text", "text": EVIL}
    one = {"version": 1, "output": {"text": EVIL}, "actor": {"id": EVIL}, "asker": {"id": EVIL}, "parts": [part]}
    votes = {"arguments": {EVIL: EVIL}, "votes": [], "quorum": 1, "responders": [EVIL], "scopes": [EVIL]}
    key = {**dict.fromkeys(("kid", "algorithm", "updated_at"), EVIL), "created_by": {"id": EVIL}, "agents": [EVIL]}
    return {**texts, **one, **votes, **key}


def hostile_tool() -> dict[str, Any]:
    """Return the fields of a tool alone."""
    texts = dict.fromkeys(("kind", "effect", "description", "place", "output", "title_done"), EVIL)
    schema = {"type": "object", "properties": {EVIL: {"type": EVIL, "description": EVIL}}}
    numbers = {"available": True, "idempotent": True, "untrusted": True, "timeout_s": 1, "result_limit": 1}
    versions = [{"version": 1, "created_at": EVIL}]
    more = {"preset": {EVIL: EVIL}, "config": None, "context": [EVIL], "agents": [EVIL], "versions": versions}
    return {**texts, **numbers, **more, "parameters": schema}


def hostile_server() -> dict[str, Any]:
    """Return the fields of an MCP server alone."""
    tool = {**hostile_tool(), "name": EVIL, "title": EVIL, "annotations": {EVIL: True}}
    login = {"status": "ok", "why": EVIL, "remedy": EVIL, "issuer": EVIL, "scope": EVIL}
    info = {"title": EVIL, "version": EVIL, "era": EVIL, "instructions": EVIL}
    changes = [{"change": EVIL, "tool": EVIL, "before": tool, "now": tool}]
    texts = dict.fromkeys(("url", "error", "digest"), EVIL)
    more = {"trusted": True, "tools": [tool], "left_out": [{"tool": EVIL, "why": EVIL}], "listed_at": EVIL}
    return {**texts, **more, "login": login, "info": info, "changes": changes}


def spent() -> dict[str, Any]:
    """Return the fields of what was spent, but for its name."""
    usage = dict.fromkeys(("input", "cache_read", "cache_write_short", "cache_write_long", "output"), 1)
    counts = dict.fromkeys(("runs", "steps", "unpriced", "unmeasured"), 1)
    return {**counts, "key": EVIL, "cost": "1", "uncached_cost": "2", "usage": usage}


def answer(request: httpx.Request) -> httpx.Response:
    """Answer as a server would whose texts all come from an attacker."""
    if request.url.path.endswith("/events"):
        return httpx.Response(200, text='id: 1\nevent: message.completed\ndata: {"text": "\x9b\u202e"}\n\n')
    if request.url.path.endswith("/audit"):
        return httpx.Response(200, text=f"{json.dumps(hostile())}\n")
    one = hostile()
    match request.url.path.split("/")[2]:
        case "tools":
            one |= hostile_tool()
        case "mcp-servers":
            one |= hostile_server()
        case "costs":
            one |= spent()
        case _:
            pass
    return httpx.Response(200, json={**one, "items": [one], "next_cursor": None})


@for_each("command", COMMANDS)
def test_no_command_prints_what_a_terminal_obeys(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    """Whatever a server answers, a command prints signs that can be seen, and no text of it begins a line."""

    def made(_: Any) -> Client:
        return Client(httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://parley"))

    monkeypatch.setattr(client, "client_of", made)
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.exception
    assert found.output
    assert [sign for sign in found.output if not (sign.isprintable() or sign == "\n")] == []
    assert not any(text.startswith(FORGED) for text in found.output.splitlines()), found.output
    if "list" in command:
        assert len(found.output.splitlines()) == (1 if "--json" in command else 2)


def test_a_key_is_revoked_though_its_sites_cannot_be_listed(monkeypatch: pytest.MonkeyPatch):
    """In an emergency the revocation does not wait for a list that fails; the command says what it could not list."""
    asked = list[str]()

    def answered(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        if request.url.path == "/v1/web/keys":
            return httpx.Response(503, json={"detail": "The list is away."})
        return httpx.Response(204) if request.method == "DELETE" else httpx.Response(200, json={"actor": "operator:1"})

    def made(_: Any) -> Client:
        return Client(httpx.AsyncClient(transport=httpx.MockTransport(answered), base_url="http://parley"))

    monkeypatch.setattr(client, "client_of", made)
    found = CliRunner().invoke(app, ("keys", "revoke", "key_1"))
    assert asked[-1] == "DELETE /v1/keys/key_1"
    assert (found.exit_code, found.output.splitlines()[0]) == (0, "key_1  revoked")
    assert found.output.splitlines()[1].endswith("The list is away.")


class Sized(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


ASKED = {
    "id": "apr_0123456789abcdef",
    "asker": {"id": "visitor:ann", "name": "Ann"},
    "tool": "refund_order",
    "arguments": {"order": "A-1001", "note": "a note that is far longer than a column of a narrow terminal"},
    "responders": ["operators", "not_asker"],
    "votes": [],
    "quorum": 1,
    "requested_at": "2020-01-01T00:00:00Z",
}


@for_each("width, is_table", [(100, True), (60, False)])
def test_a_list_fits_its_terminal(width: int, is_table: bool, monkeypatch: pytest.MonkeyPatch):
    """On a terminal no line is wider than it and nothing is left out; where columns have no room they are lines."""
    written = Sized()
    monkeypatch.setattr("sys.stdout", written)
    monkeypatch.setenv("COLUMNS", str(width))
    listed([ASKED], COLUMNS, as_json=False)
    lines = written.getvalue().splitlines()
    said = "".join(lines).replace(" ", "")
    assert (lines[0].split()[:2] == ["AGE", "ASKS"]) == is_table
    assert ASKED["id"] in said
    assert max(map(len, lines)) <= width or not is_table
    assert "Ann" in said


def test_an_error_prints_nothing_that_a_terminal_obeys(monkeypatch: pytest.MonkeyPatch, capsys: Any):
    """The words of a refusal, which a server chooses, are shown with their hidden signs by number."""
    from app.__main__ import main  # noqa: PLC0415 - it imports nothing by itself, so that Ctrl-C is quick

    refusal = httpx.MockTransport(lambda _: httpx.Response(404, json={"detail": EVIL}))
    http = httpx.AsyncClient(transport=refusal, base_url="http://parley")
    monkeypatch.setattr(client, "client_of", lambda _: Client(http))
    monkeypatch.setattr("sys.argv", ["parley", "runs", "show", "run_1"])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert "\\u{1b}" in said
    assert [sign for sign in said if not (sign.isprintable() or sign == "\n")] == []


def test_a_log_line_holds_nothing_that_a_terminal_obeys(monkeypatch: pytest.MonkeyPatch):
    """Log lines for people are visible, with their values and tracebacks, ours and those of libraries."""
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    kept = structlog.get_config(), logging.root.handlers[:], logging.root.level
    try:
        logs.configure()
        structlog.get_logger("parley.test").warning("odd", value=EVIL, other=EVIL.replace(" ", ""))
        logging.getLogger("library").error("odd %s", EVIL)
    finally:
        structlog.configure(**kept[0])
        logging.root.handlers[:], logging.root.level = kept[1], kept[2]
        logging.captureWarnings(False)
    assert written.getvalue()
    assert [sign for sign in written.getvalue() if not (sign.isprintable() or sign == "\n")] == []


@pytest.mark.whole
def test_all_printing_goes_through_the_printer():
    """No module of the application writes to standard output or error but the printer and those that are known."""
    found = {str(path.relative_to(ROOT)) for path in (ROOT / "app").rglob("*.py") if _prints(path)}
    assert found == PRINTERS


def _prints(path: Path) -> bool:
    """Return whether a module calls `print`, `echo` or `write` of a standard stream."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in ("print", "typer.echo", "typer.secho", "click.echo", "stream.write", "_writer"):
            return True
        if called.startswith(("sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer", "os.write")):
            return True
    return False
