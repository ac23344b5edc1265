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
from app.cli.approvals import COLUMNS
from app.cli.client import Client
from app.cli.commands import app
from app.cli.printing import listed
from tests.cases import for_each

ROOT = Path(__file__).parents[3]
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u2066\u200b\r\nrun_1  completed"
# Where the application writes to the terminal: the printer, text that `channels.terminal` has made visible, an error
# that is made visible there, and two constants.
PRINTERS = {
    "app/printer.py",
    "app/cli/chat/command.py",
    "app/__main__.py",
    "app/serving/signals.py",
    "app/api/bodies/schemas.py",
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
)


def hostile() -> dict[str, Any]:
    """Return an object with all fields that a command prints, hostile as far as its type allows."""
    names = ("id", "name", "source", "model", "status", "session", "created_at", "cost", "last_activity_at", "title")
    texts = dict.fromkeys((*names, "role", "tool", "expires_at", "requested_at", "used_at", "revoked_at"), EVIL)
    part = {"type": "text", "text": EVIL}
    one = {"version": 1, "output": {"text": EVIL}, "actor": {"id": EVIL}, "asker": {"id": EVIL}, "parts": [part]}
    return {**texts, **one, "arguments": {EVIL: EVIL}, "votes": [], "quorum": 1, "responders": [EVIL], "scopes": [EVIL]}


def answer(request: httpx.Request) -> httpx.Response:
    """Answer as a server would whose texts all come from an attacker."""
    if request.url.path.endswith("/events"):
        return httpx.Response(200, text='id: 1\nevent: message.completed\ndata: {"text": "\x9b\u202e"}\n\n')
    if request.url.path.endswith("/audit"):
        return httpx.Response(200, text=f"{json.dumps(hostile())}\n")
    one = hostile()
    return httpx.Response(200, json={**one, "items": [one], "next_cursor": None})


@for_each("command", COMMANDS)
def test_no_command_prints_what_a_terminal_obeys(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    """Whatever a server answers, a command prints signs that can be seen, and each row on its line."""
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://parley")
    monkeypatch.setattr(client, "client_of", lambda _: Client(http))
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.exception
    assert found.output
    assert all(sign.isprintable() or sign == "\n" for sign in found.output)
    if command[1] == "list":
        assert len(found.output.splitlines()) == (1 if "--json" in command else 2)


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


@pytest.mark.parametrize(("width", "is_table"), [(100, True), (60, False)])
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
    assert all(sign.isprintable() or sign == "\n" for sign in said)


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
    assert all(sign.isprintable() or sign == "\n" for sign in written.getvalue())


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
