"""What the doctor and `parley tools show` say of MCP servers."""

from typing import Any

from agent_core.servers import LoginState, McpOAuth, McpServer
from agent_core.store.servers import StoredServer
from app.cli.mcp import _changes, _described
from app.cli.tools import _origin
from app.doctor import described
from tests.cases import for_each

NOW = 1_000_000


@for_each("due, said", [(240, "asked again in 4 min"), (-600, "overdue for 10 min")])
def test_a_failing_server_is_said_to_be_asked_again(due: int, said: str):
    """The remedy says when it is asked again, and that no process does once it is overdue."""
    stored = StoredServer(
        key=1,
        id="mcp_1",
        source="api",
        definition=b"{}",
        server=McpServer(name="github"),
        kept=None,
        listed_at=None,
        accepted=None,
        error="It is down.",
        failed_at=0,
        due_at=(NOW + due) * 1000,
        created_at=0,
        updated_at=0,
    )
    (finding,) = described([stored], (), NOW)
    assert finding.level == "warn"
    assert said in finding.remedy


@for_each(
    "state, said",
    [
        (None, "`github`: not logged in"),
        ({"expires_at": (NOW - 1) * 1000}, "`github`: the login has expired"),
        ({"ended": "It was revoked."}, "`github`: It was revoked."),
    ],
)
def test_a_login_that_an_operator_has_to_make_is_named_with_its_command(state: dict[str, Any] | None, said: str):
    """Not logged in, expired and ended each have the command as their remedy."""
    known = {"issuer": "https://as.example", "scope": None, "since": 0, "expires_at": None, "renewable": False}
    stored = StoredServer(
        key=1,
        id="mcp_1",
        source="file",
        definition=b"{}",
        server=McpServer(name="github", url="https://a.example", oauth=McpOAuth(grant="authorization_code")),
        kept=None,
        listed_at=None,
        accepted=None,
        error="It refuses.",
        failed_at=0,
        login_state=None if state is None else LoginState(**{**known, **state}),
        due_at=NOW * 1000,
        created_at=0,
        updated_at=0,
    )
    (finding,) = described([stored], (), NOW)
    assert (finding.level, finding.text, finding.remedy) == ("warn", said, "run `parley mcp login github`")


def test_a_servers_tool_is_shown_with_its_title_arguments_and_hints():
    """An operator reads what the model does: each argument with its type and description."""
    properties = {"q": {"type": "string", "description": "What to find."}, "n": True}
    tool = {
        "name": "mcp__a__find",
        "title": "Find",
        "description": "Find it.",
        "effect": "read",
        "idempotent": True,
        "parameters": {"type": "object", "properties": properties, "required": ["q"]},
        "annotations": {"read_only": True, "open_world": False},
    }
    assert list(_described(tool)) == [
        "\nmcp__a__find Find (read, idempotent): Find it.",
        "  the server says: read only: yes, open world: no",
        "  q (string, required): What to find.",
        "  n (any)",
    ]


def test_a_change_of_a_title_or_of_a_hint_is_shown():
    """What a tool's hash is made of is what the operator sees before they accept it."""
    before = {"description": "Pay.", "parameters": {"type": "object"}, "annotations": {"read_only": True}}
    now = {**before, "title": "Pay\n now", "annotations": {}}
    changes = [{"change": "changed", "tool": "pay", "before": before, "now": now}]
    shown = list(_changes({"changes": changes}))
    assert [line for line in shown if line.replace("accepted", "now") not in shown] == [
        "  accepted, title: none",
        "  accepted, the server says: read only: yes",
    ]
    assert "  now, title: Pay now" in shown
    assert "  now, the server says: nothing of its effect" in shown


def test_a_tool_of_a_server_names_it():
    """The list of tools says which MCP server one comes from."""
    tool = {"name": "mcp__a__find", "kind": "mcp", "place": None, "source": None, "version": None, "available": True}
    assert _origin(tool, {"mcp__a__find": "a"}) == "the MCP server a"
