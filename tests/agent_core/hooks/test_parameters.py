"""The schema that a question to people holds, for the labels and fields of its card."""

from typing import Any

from msgspec import structs

from agent_core.agent.state import CallState
from agent_core.agents import ApprovalConfig, ToolSpec
from agent_core.events import ApprovalRequested
from agent_core.hooks.chain import MAX_PARAMETERS, held

SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Payment",
    "properties": {
        "amount": {"type": "integer", "title": "Amount", "description": "In cents."},
        "title": {"type": "string", "enum": ["Mr", "Ms"]},
        "to": {"type": "array", "items": {"type": "string", "title": "Payee"}, "default": [{"title": "kept"}]},
    },
}
PAY = ToolSpec(name="pay", description="", parameters=SCHEMA)


def asked(spec: ToolSpec) -> dict[str, Any] | None:
    """Return the schema in the question about a call of *spec*."""
    call = CallState(call="call_1", name="pay", arguments={"amount": 5}, index=0, step=1, repeat=1)
    facts = held("ask", ApprovalConfig(), call, spec, (None, ()))
    return next(fact.parameters for fact in facts if isinstance(fact, ApprovalRequested))


def test_a_question_holds_the_schema_of_the_arguments():
    """It is the tool's own, unless that has no properties or is long."""
    assert asked(PAY) == SCHEMA
    assert asked(structs.replace(PAY, parameters={"type": "object"})) is None
    assert asked(structs.replace(PAY, parameters={**SCHEMA, "description": "x" * MAX_PARAMETERS})) is None


def test_an_mcp_server_gives_arguments_no_other_names():
    """Its titles are left out wherever they are; a property called `title`, and values, stay."""
    found = asked(structs.replace(PAY, source="mcp"))
    assert found == {
        "type": "object",
        "properties": {
            "amount": {"type": "integer", "description": "In cents."},
            "title": {"type": "string", "enum": ["Mr", "Ms"]},
            "to": {"type": "array", "items": {"type": "string"}, "default": [{"title": "kept"}]},
        },
    }
